package record

import (
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Belongs reports whether the node is one of the cluster's, there or not. One
// that was removed is not, though what it has said may still be needed.
func (v *NodeView) Belongs() bool {
	return v.Alive.Exists() || v.Inventory.Exists() || v.Cordon.Exists()
}

// Unfinished returns the generations that may still have processes on the node:
// those of jobs that are at work, in which it takes part or of which it holds a
// grant, has not said that nothing is left, and was not given up; and after them those that it has begun to prepare. A job in a phase
// that this version does not know may be at work.
func (m *Mirror) Unfinished(n cluster.NodeID) []JobGen {
	var out []JobGen
	node := m.Node(n)
	for _, id := range m.JobIDs() {
		state := m.Jobs[id].State.Value
		jg := JobGen{id, state.Generation}
		gen := m.Jobs[id].Generation(state.Generation)
		world := gen.Plan.Value.World
		if !gen.Plan.Value.Of(id, state.Generation) {
			world = cluster.World{}
		}
		stopped := node.Ack(id, state.Generation, world.Nonce).Stopped.Exists()
		_, _, takesPart := world.Member(n)
		if grant := node.Grants[id]; !takesPart && grant.Exists() { // no plan names it: what it has said counts whatever its nonce
			takesPart = grant.Value.Generation == state.Generation
			stopped = node.Acks[jg] != nil && node.Acks[jg].Stopped.Exists()
		}
		if takesPart && (state.Phase.Active() || m.Jobs[id].State.Exists() && !state.Phase.Known()) && !gen.Fences[n].Exists() && !stopped {
			out = append(out, jg)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(node.Ready)) {
		ready := node.Ready[id].Value
		if jg := (JobGen{id, ready.Generation}); ready.Begun && !slices.Contains(out, jg) {
			out = append(out, jg)
		}
	}
	return out
}

// Quoted reports whether a generation that is still recorded may be looked up in
// what the node has said.
func (m *Mirror) Quoted(v *NodeView) bool {
	planned := func(jg JobGen) bool { return m.Job(jg.Job).Generation(jg.Generation).Plan.Exists() }
	for job, p := range v.Progress.Value.Jobs {
		if planned(JobGen{job, p.Generation}) {
			return true
		}
	}
	for jg := range v.Acks {
		if planned(jg) {
			return true
		}
	}
	for jg := range v.Saved {
		if planned(jg) {
			return true
		}
	}
	for jg := range v.Offers {
		if planned(jg) {
			return true
		}
	}
	return false
}
