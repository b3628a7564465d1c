package allocator

import (
	"iter"

	"github.com/bellows-ml/bellows/cluster"
)

// ledger knows the devices of a question.
type ledger struct {
	present map[cluster.DeviceID]cluster.NodeID
	healthy map[cluster.DeviceID]bool
	usable  map[cluster.DeviceID]cluster.NodeID
	count   map[cluster.NodeID]int // of usable devices
}

func newLedger(in Input) ledger {
	l := ledger{
		present: map[cluster.DeviceID]cluster.NodeID{}, healthy: map[cluster.DeviceID]bool{},
		usable: map[cluster.DeviceID]cluster.NodeID{}, count: map[cluster.NodeID]int{},
	}
	for _, n := range in.Nodes {
		for _, d := range n.Devices {
			l.present[d.ID] = n.ID
			l.healthy[d.ID] = d.Health == cluster.Healthy
		}
		for _, id := range n.Usable() {
			l.usable[id] = n.ID
			l.count[n.ID]++
		}
	}
	return l
}

// mustKeep reports whether a decision may change the job's workers at all, its devices permitting.
func mustKeep(in Input, j JobView) bool {
	return j.Workers > 0 && (in.Between || j.Pinned)
}

// exist reports whether all devices of the job's world are still there, sound or not.
func (l ledger) exist(j JobView) bool {
	for id, node := range devicesOf(j.Present) {
		if l.present[id] != node {
			return false
		}
	}
	return true
}

// stays reports whether the job may stay on the devices it has if its number
// does not change. Sound devices on a cordoned node are no reason to leave;
// unsound ones are, unless the world must be kept.
func (l ledger) stays(in Input, j JobView) bool {
	if !l.exist(j) {
		return false
	}
	if mustKeep(in, j) {
		return true
	}
	for id := range devicesOf(j.Present) {
		if !l.healthy[id] {
			return false
		}
	}
	for _, n := range j.Excluded {
		for _, p := range j.Present.Placements {
			if p.Node == n {
				return false
			}
		}
	}
	return true
}

// open counts the usable devices on the nodes that take the job.
func (l ledger) open(j JobView) int {
	n := len(l.usable)
	seen := map[cluster.NodeID]bool{}
	for _, id := range j.Excluded {
		if !seen[id] {
			seen[id] = true
			n -= l.count[id]
		}
	}
	return n
}

func devicesOf(a cluster.Allocation) iter.Seq2[cluster.DeviceID, cluster.NodeID] {
	return func(yield func(cluster.DeviceID, cluster.NodeID) bool) {
		for _, p := range a.Placements {
			for _, id := range p.Devices {
				if !yield(id, p.Node) {
					return
				}
			}
		}
	}
}
