package allocator

import (
	"iter"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Devices answers what both a policy and the check of its answer must agree
// on: which jobs must keep their workers, which may stay where they are, and
// how many devices there are. The zero value is a question without nodes.
type Devices struct {
	between bool
	where   map[cluster.DeviceID]where
	usable  int
	count   map[cluster.NodeID]int // of usable devices
}

type where struct {
	node          cluster.NodeID
	sound, usable bool
}

// NewDevices reads the devices of a question.
func NewDevices(in Input) Devices {
	d := Devices{between: in.Between, where: map[cluster.DeviceID]where{}, count: map[cluster.NodeID]int{}}
	for _, n := range in.Nodes {
		for _, x := range n.Devices {
			d.where[x.ID] = where{node: n.ID, sound: x.Health == cluster.Healthy}
		}
		for _, id := range n.Usable() {
			w := d.where[id]
			w.usable = true
			d.where[id] = w
			d.usable++
			d.count[n.ID]++
		}
	}
	return d
}

// Usable is how many devices may be given to new work.
func (d Devices) Usable() int { return d.usable }

// Open is how many of them are on nodes that take the job.
func (d Devices) Open(j JobView) int {
	n := d.usable
	for i, id := range j.Excluded {
		if !slices.Contains(j.Excluded[:i], id) {
			n -= d.count[id]
		}
	}
	return n
}

// MustKeep reports whether the job must keep its number of workers: it is
// pinned, or it runs and this is no interval's end. A job that has lost a
// device cannot be held to that.
func (d Devices) MustKeep(j JobView) bool {
	if j.Workers == 0 || !d.between && !j.Pinned {
		return false
	}
	for id, node := range held(j) {
		if w, ok := d.where[id]; !ok || w.node != node {
			return false
		}
	}
	return true
}

// Stays reports whether the job stays on the devices it has if its number does
// not change. A cordoned node is no reason to leave; an unsound device, or a
// node that has refused the job, is one unless the job must keep its world.
func (d Devices) Stays(j JobView) bool {
	if j.Workers == 0 || j.Present.Workers() != j.Workers {
		return false
	}
	if d.MustKeep(j) {
		return true
	}
	for id, node := range held(j) {
		if w := d.where[id]; w.node != node || !w.sound || slices.Contains(j.Excluded, node) {
			return false
		}
	}
	return true
}

// Held yields the usable devices that the job has now, and their nodes.
func (d Devices) Held(j JobView) iter.Seq2[cluster.DeviceID, cluster.NodeID] {
	return func(yield func(cluster.DeviceID, cluster.NodeID) bool) {
		for id, node := range held(j) {
			if w := d.where[id]; w.usable && w.node == node && !yield(id, node) {
				return
			}
		}
	}
}

// held yields all devices of the job's world, whatever has become of them.
func held(j JobView) iter.Seq2[cluster.DeviceID, cluster.NodeID] {
	return func(yield func(cluster.DeviceID, cluster.NodeID) bool) {
		for _, p := range j.Present.Placements {
			for _, id := range p.Devices {
				if !yield(id, p.Node) {
					return
				}
			}
		}
	}
}
