package allocator

import (
	"iter"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Devices is what a policy and the check of its answer must agree on: which jobs
// must keep their workers, which may stay where they are, and how many devices
// there are. The zero value is a question without nodes.
type Devices struct {
	between bool
	nodes   map[cluster.NodeID]nodeDevices
	usable  int
}

// nodeDevices are those of one node: few, so that a search goes through them.
type nodeDevices struct {
	devices []cluster.Device
	inUse   bool // the node is not cordoned
	usable  int
}

// NewDevices reads the devices of a question. Within Run the question has them already.
func NewDevices(in Input) Devices {
	if in.devices != nil {
		return *in.devices
	}
	d := Devices{between: in.Between, nodes: make(map[cluster.NodeID]nodeDevices, len(in.Nodes))}
	for _, n := range in.Nodes {
		s := nodeDevices{devices: n.Devices, inUse: !n.Cordoned}
		for _, x := range n.Devices {
			if s.inUse && x.Health == cluster.Healthy {
				s.usable++
			}
		}
		d.usable += s.usable
		d.nodes[n.ID] = s
	}
	return d
}

// find reports whether a device is on a node, whether it is healthy, and whether it may be given to new work.
func (d Devices) find(node cluster.NodeID, id cluster.DeviceID) (there, healthy, usable bool) {
	s := d.nodes[node]
	for i := range s.devices {
		if x := &s.devices[i]; x.ID == id {
			healthy = x.Health == cluster.Healthy
			return true, healthy, healthy && s.inUse
		}
	}
	return false, false, false
}

// Usable is how many devices may be given to new work.
func (d Devices) Usable() int { return d.usable }

// UsableFor is how many of them are on nodes that can run the job.
func (d Devices) UsableFor(j JobView) int {
	n, excluded := d.usable, j.Excluded
	if !slices.IsSorted(excluded) { // nodes may be named twice
		excluded = slices.Sorted(slices.Values(excluded))
	}
	for i, id := range excluded {
		if i == 0 || excluded[i-1] != id {
			n -= d.nodes[id].usable
		}
	}
	return n
}

// MustKeep reports whether the job must keep its number of workers: it is
// pinned, it runs and this is no interval's end, or it has nothing left to do and
// all of its devices are sound. A job that has lost a device cannot keep it.
func (d Devices) MustKeep(j JobView) bool {
	bound := d.between || j.Pinned
	if j.Workers == 0 || !bound && !j.Finishing() {
		return false
	}
	for id, node := range held(j) {
		there, healthy, _ := d.find(node, id)
		if !there || !bound && (!healthy || slices.Contains(j.Excluded, node)) {
			return false
		}
	}
	return true
}

// Stays reports whether the job stays on the devices it has if its number does
// not change. A cordoned node is no reason to leave; an unhealthy device, or a
// node that is excluded for the job, is one unless the job must keep its world.
func (d Devices) Stays(j JobView) bool {
	if j.Workers == 0 || j.Present.Workers() != j.Workers {
		return false
	}
	if d.MustKeep(j) {
		return true
	}
	for id, node := range held(j) {
		if _, healthy, _ := d.find(node, id); !healthy || slices.Contains(j.Excluded, node) {
			return false
		}
	}
	return true
}

// Held yields the usable devices that the job has now, and their nodes.
func (d Devices) Held(j JobView) iter.Seq2[cluster.DeviceID, cluster.NodeID] {
	return func(yield func(cluster.DeviceID, cluster.NodeID) bool) {
		for id, node := range held(j) {
			if _, _, usable := d.find(node, id); usable && !yield(id, node) {
				return
			}
		}
	}
}

// held yields all devices of the job's world, usable or not.
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
