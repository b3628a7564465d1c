package record

import "github.com/bellows-ml/bellows/cluster"

// Belongs reports whether the node is one of the cluster's, there or not. One
// that was removed is not, though what it has said may still be needed.
func (v *NodeView) Belongs() bool {
	return v.Alive.Exists() || v.Inventory.Exists() || v.Cordon.Exists()
}

// Unfinished returns the generations that may still have processes on the node:
// those of jobs that are at work, in which it takes part, has not said that
// nothing is left, and was not given up. Sorted by job.
func (m *Mirror) Unfinished(n cluster.NodeID) []JobGen {
	var out []JobGen
	for _, id := range m.JobIDs() {
		state := m.Jobs[id].State.Value
		gen := m.Jobs[id].Generation(state.Generation)
		_, _, member := gen.Plan.Value.World.Member(n)
		if member && state.Phase.Active() && !gen.Fences[n].Exists() && !m.Node(n).Ack(id, state.Generation, gen.Plan.Value.World.Nonce).Stopped.Exists() {
			out = append(out, JobGen{id, state.Generation})
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
