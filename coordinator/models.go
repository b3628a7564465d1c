package coordinator

import (
	"maps"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// Where nodes have devices of several models, decisions are told how a job does on each
// (allocator.OnModel), a world has devices of one, and promises are planned on the devices of
// one model alone. See ADR 56.

// onModels is how the job does on each model of devices that may run it; nil where there is one
// alone. What was promised a deadline may have only those that promises are planned on.
func onModels(in situation, promised bool) (out []allocator.OnModel) {
	models := in.nodes().models
	if len(models) < 2 {
		return nil
	}
	if promised {
		models = []string{promiseModel(in)}
	}
	known := learn(in)
	here := devicesModel(in.mirror, in.world())
	for _, m := range models {
		j := stepsOf(in)
		if m != here {
			j.In = forecast.World{}
		}
		l := learnOn(in, known, m)
		f := l.Of(j)
		x := allocator.OnModel{
			Model: m, Speeds: f.Speeds, Careful: f.Careful(), Batches: f.Batches, Staying: f.Staying, Fastest: f.Fastest,
			Preferred: in.Spec.Value.Where.Prefers(m),
		}
		switch {
		case known.One() > 0 && l.One() > 0:
			x.Rate = l.One() / known.One()
		case !in.measures.off:
			x.Rate = in.measures.level(in.mirror, m)
		}
		out = append(out, x)
	}
	return out
}

// learnOn makes the job's model on devices of one model; known is what learn has just told.
func learnOn(in situation, known *learned, model string) forecast.Learned {
	if in.measures.readKinds(in.mirror); !maps.Equal(known.levels, in.measures.levels) {
		known.levels, known.on = in.measures.levels, nil
	}
	if l, ok := known.on[model]; ok {
		return l
	}
	var l forecast.Learned
	kind := kindOf(in, known.name)
	if points := measured(in); len(points)+len(kind.Value.Points) > 0 {
		j := stepsOf(in)
		j.Void, j.Range.Micro = known.live.void, in.Spec.Value.MicroBatch()
		j.Points, j.Kind = forecast.PointsOn(points, kind.Value.Points, model, func(from, to string) float64 {
			return in.measures.level(in.mirror, to) / in.measures.level(in.mirror, from)
		})
		l = forecast.Learn(j)
	}
	if known.on == nil {
		known.on = map[string]forecast.Learned{}
	}
	known.on[model] = l
	return l
}

// promiseModel is the model of the devices that promises are planned on: that of which the
// cluster has most, whether their nodes are alive or not; empty where there is one alone.
func promiseModel(in situation) string { return in.nodes().promise }

// promiseNodes are the nodes with the devices that promises are planned on.
func promiseNodes(in situation) []cluster.Node {
	if m := promiseModel(in); m != "" {
		return cluster.OfModel(in.live(), m)
	}
	return in.live()
}

// promiseDevices is how many of these devices may be given to new work.
func promiseDevices(in situation) int {
	if promiseModel(in) == "" {
		return in.nodes().usable
	}
	n := 0
	for _, node := range promiseNodes(in) {
		n += len(node.Usable())
	}
	return n
}

// promiseExcluded are those of these nodes that cannot run the job.
func promiseExcluded(in situation, view allocator.JobView) []cluster.NodeID {
	if promiseModel(in) == "" {
		return view.Excluded
	}
	var out []cluster.NodeID
	for _, n := range promiseNodes(in) {
		if slices.Contains(view.Excluded, n.ID) {
			out = append(out, n.ID)
		}
	}
	return out
}

// mayBePromised reports whether a job has devices that promises are planned on.
func mayBePromised(in situation, j *job) bool {
	m := promiseModel(in)
	return m == "" || slices.ContainsFunc(j.has.Placements, func(p cluster.Placement) bool {
		return slices.ContainsFunc(in.node(p.Node).Inventory.Value.Devices, func(d cluster.Device) bool {
			return d.ModelName() == m && slices.Contains(p.Devices, d.ID)
		})
	})
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
