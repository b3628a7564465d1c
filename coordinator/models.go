package coordinator

import (
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/record/reason"
)

// Where nodes have devices of several models, decisions are told how a job does on each
// (allocator.OnModel), a world has devices of one, and promises are planned on the devices of
// one model alone. See ADR 56.

// onModels is how the job does on each model of devices that may run it; nil where there is one
// alone. What was promised a deadline may have only those that promises are planned on.
func onModels(in situation, promised bool) []allocator.OnModel {
	models := in.nodes().models
	if len(models) < 2 {
		return nil
	}
	if promised {
		models = []string{in.nodes().promise}
	}
	return known(in).OnModels(models)
}

// modelFor is the model of the devices that may take the place of those that a job was granted.
func modelFor(in situation, t target) string {
	if t.model != "" || len(in.nodes().models) < 2 || in.Spec.Value.Where.MixModels {
		return t.model
	}
	for _, p := range t.Placements {
		for _, d := range in.node(p.Node).Inventory.Value.Devices {
			if slices.Contains(p.Devices, d.ID) {
				return d.ModelName()
			}
		}
	}
	return ""
}

// unpreferred says, of a job whose preferred model no node has, which there are; empty where one has it.
func unpreferred(in situation) reason.Reason {
	where, models := in.Spec.Value.Where, in.nodes().models
	if where.PreferModel == "" || slices.ContainsFunc(models, where.Prefers) {
		return nil
	}
	return reason.Of(reason.New(reason.Unpreferred, "model", where.PreferModel, "models", strings.Join(models, ", ")))
}
