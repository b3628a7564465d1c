package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// MaxWhereNodes bounds the nodes that a job may name.
const MaxWhereNodes = 1024

// Where says which nodes may run a job. The zero value: all of them.
type Where struct {
	Nodes []NodeID `json:"nodes,omitempty"` // only these; none = all
	Not   []NodeID `json:"not,omitempty"`   // none of these
	// DeviceModel has to be part of the model of all devices of a node, whatever the case: "h100".
	DeviceModel string `json:"device_model,omitempty"`
	// PreferModel has to be part of the model of devices that it would rather have: they count
	// as twice as fast.
	PreferModel string `json:"prefer_model,omitempty"`
	// MixModels: its devices may be of several models at once, where no model has enough.
	MixModels bool `json:"mix_models,omitempty"`
	// DeviceMemoryBytes is the least memory that each device of a node has to have.
	DeviceMemoryBytes uint64 `json:"device_memory_bytes,omitempty"`
}

// Anywhere reports whether every node will do.
func (w Where) Anywhere() bool {
	return len(w.Nodes) == 0 && len(w.Not) == 0 && w.DeviceModel == "" && w.DeviceMemoryBytes == 0
}

// Refuses says why a node may not run the job; empty if it may. A node whose
// devices differ is taken only if all of them will do: which of them a job gets
// is decided by their number alone.
func (w Where) Refuses(n Node) string {
	switch {
	case len(w.Nodes) > 0 && !slices.Contains(w.Nodes, n.ID):
		return "is not among the nodes that the job names"
	case slices.Contains(w.Not, n.ID):
		return "is a node that the job excludes"
	}
	for _, d := range n.Devices {
		switch {
		case !IsModel(d.Model, w.DeviceModel):
			return fmt.Sprintf("has devices of model %q, and the job wants %q", d.Model, w.DeviceModel)
		case d.MemoryBytes < w.DeviceMemoryBytes:
			return fmt.Sprintf("has devices of %.0f GiB, and the job wants %.0f GiB or more", gib(d.MemoryBytes), gib(w.DeviceMemoryBytes))
		}
	}
	return ""
}

// IsModel reports whether a device's model is one that is asked for by a part of its name.
func IsModel(model, part string) bool {
	return strings.Contains(strings.ToLower(model), strings.ToLower(part))
}

// Prefers reports whether the job would rather have devices of this model than of others.
func (w Where) Prefers(model string) bool {
	return w.PreferModel != "" && IsModel(model, w.PreferModel)
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

func (w Where) validate(add func(string, ...any)) {
	for _, list := range []struct {
		field string
		nodes []NodeID
	}{{"node", w.Nodes}, {"exclude node", w.Not}} {
		if len(list.nodes) > MaxWhereNodes {
			add("%s: %d are named, at most %d", list.field, len(list.nodes), MaxWhereNodes)
			continue
		}
		for _, n := range list.nodes {
			if err := CheckName(string(n)); err != nil {
				add("%s: %w", list.field, err)
			}
		}
	}
	for _, m := range []struct{ field, model string }{{"device model", w.DeviceModel}, {"prefer model", w.PreferModel}} {
		if len(m.model) > MaxModelBytes {
			add("%s %.*q… has %d bytes: at most %d", m.field, quoted, m.model, len(m.model), MaxModelBytes)
		}
	}
	if len(w.Nodes) > 0 && !slices.ContainsFunc(w.Nodes, func(n NodeID) bool { return !slices.Contains(w.Not, n) }) {
		add("exclude node %s: it leaves none of the nodes %s: take one out", list(w.Not), list(w.Nodes))
	}
}
