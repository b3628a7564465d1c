package place

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// parts are the question's counts by the model of devices that they name, those that name
// none before all where they stay and after all where they do not; nil where no count names one.
func (q Question) parts() [][]Count {
	if !slices.ContainsFunc(q.Want, func(c Count) bool { return c.Model != "" }) {
		return nil
	}
	parts := make([][]Count, 1)
	var last []Count
	for _, c := range q.Want {
		at := slices.IndexFunc(parts, func(p []Count) bool { return len(p) > 0 && p[0].Model == c.Model })
		switch {
		case c.Model == "" && q.holds(c):
			parts[0] = append(parts[0], c)
		case c.Model == "":
			last = append(last, c)
		case at < 0:
			parts = append(parts, []Count{c})
		default:
			parts[at] = append(parts[at], c)
		}
	}
	return append(parts, last)
}

// holds reports whether a count is what the job has.
func (q Question) holds(c Count) bool {
	i := slices.IndexFunc(q.Current, func(a cluster.Allocation) bool { return a.Job == c.Job })
	return i >= 0 && q.Current[i].Workers() == c.Workers
}

// inParts has each part answered on the devices of its model that those before it have left.
func (q Question) inParts(parts [][]Count, answer func(Question) (Result, []Move)) (Result, []Move) {
	var r Result
	var moves []Move
	nodes := q.Nodes
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		of := Question{Nodes: nodes, Current: q.Current, Want: part}
		if m := part[0].Model; m != "" {
			of.Nodes = cluster.OfModel(nodes, m)
		}
		placed, moved := answer(of)
		r.Allocations, r.Unplaced, moves = append(r.Allocations, placed.Allocations...), append(r.Unplaced, placed.Unplaced...), append(moves, moved...)
		if part[0].Model == "" || len(parts[len(parts)-1]) > 0 {
			nodes = without(nodes, placed.Allocations)
		}
	}
	return r.inOrder(q.Want), moves
}

// without are the nodes with the devices of allocations closed to all others.
func without(nodes []cluster.Node, taken []cluster.Allocation) []cluster.Node {
	gone := map[cluster.DeviceID]bool{}
	for _, a := range taken {
		for _, p := range a.Placements {
			for _, d := range p.Devices {
				gone[d] = true
			}
		}
	}
	out := slices.Clone(nodes)
	for n := range out {
		if !slices.ContainsFunc(out[n].Devices, func(d cluster.Device) bool { return gone[d.ID] }) {
			continue
		}
		out[n].Devices = slices.Clone(out[n].Devices)
		for i := range out[n].Devices {
			if d := &out[n].Devices[i]; gone[d.ID] {
				d.Health = cluster.Unhealthy
			}
		}
	}
	return out
}

// of is the part of a result that is of these counts.
func (r Result) of(want []Count) (out Result) {
	in := make(map[cluster.JobID]bool, len(want))
	for _, c := range want {
		in[c.Job] = true
	}
	for _, a := range r.Allocations {
		if in[a.Job] {
			out.Allocations = append(out.Allocations, a)
		}
	}
	for _, u := range r.Unplaced {
		if in[u.Job] {
			out.Unplaced = append(out.Unplaced, u)
		}
	}
	return out
}

// inOrder is the result in the order of the counts.
func (r Result) inOrder(want []Count) Result {
	at := make(map[cluster.JobID]int, len(want))
	for i, c := range want {
		at[c.Job] = i
	}
	slices.SortFunc(r.Allocations, func(x, y cluster.Allocation) int { return at[x.Job] - at[y.Job] })
	slices.SortFunc(r.Unplaced, func(x, y Unplaced) int { return at[x.Job] - at[y.Job] })
	return r
}
