package record

import (
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// maxGone bounds how many deleted keys a mirror remembers. Deliveries overtake
// each other by a few, so half as many are plenty; without a bound a leader
// would remember every key that there ever was.
const maxGone = 8192

// remember notes a deletion, so that an older write arriving late stays ignored.
func (m *Mirror) remember(c Change) {
	if !c.Deleted {
		delete(m.gone, c.Key)
		return
	}
	m.gone[c.Key] = c.ModRevision
	if len(m.gone) <= maxGone {
		return
	}
	revisions := slices.Sorted(maps.Values(m.gone))
	middle := revisions[len(revisions)/2]
	maps.DeleteFunc(m.gone, func(_ string, rev int64) bool { return rev < middle })
}

// prune drops the views of a node or a job of which nothing is recorded.
func (m *Mirror) prune(at subtree) {
	if v := m.Nodes[at.node]; v != nil {
		if v.prune(); v.empty() {
			delete(m.Nodes, at.node)
			m.nodeIDs = nil
		}
	}
	if v := m.Jobs[at.job]; v != nil {
		if v.prune(); v.empty() {
			delete(m.Jobs, at.job)
			m.jobIDs = nil
		}
	}
}

func (v *NodeView) prune() {
	maps.DeleteFunc(v.Acks, func(_ JobGen, a *Acks) bool {
		return !a.Started.Exists() && !a.Held.Exists() && !a.Failed.Exists() && !a.Stopped.Exists() && !a.Cleared.Exists()
	})
	maps.DeleteFunc(v.Saved, func(_ JobGen, m map[int64]Versioned[Saved]) bool { return len(m) == 0 })
	maps.DeleteFunc(v.Offers, func(_ JobGen, m map[int64]Versioned[Offer]) bool { return len(m) == 0 })
}

func (v *NodeView) empty() bool {
	return !v.Alive.Exists() && !v.Inventory.Exists() && !v.Fencing.Exists() && !v.Cordon.Exists() && !v.Progress.Exists() && !v.Asked.Exists() &&
		len(v.Told)+len(v.Grants)+len(v.Next)+len(v.Ready)+len(v.Requests)+len(v.Acks)+len(v.Saved)+len(v.Offers) == 0
}

func (v *JobView) prune() {
	maps.DeleteFunc(v.Generations, func(_ cluster.Generation, x *GenerationView) bool {
		return !x.Plan.Exists() && !x.Permit.Exists() && !x.Halt.Exists() && len(x.Fences) == 0
	})
}

func (v *JobView) empty() bool {
	return !v.Spec.Exists() && !v.Wanted.Exists() && !v.State.Exists() && !v.Committed.Exists() && !v.Speed.Exists() &&
		len(v.Generations)+len(v.Checkpoints)+len(v.Bad)+len(v.Rescales)+len(v.unreadable) == 0
}
