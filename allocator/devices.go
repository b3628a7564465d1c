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
	nodes   map[cluster.NodeID]shelf
	usable  int
}

// shelf is one node; its devices are few, so they are looked for one by one.
type shelf struct {
	devices []cluster.Device
	open    bool // not cordoned
	usable  int
}

// NewDevices reads the devices of a question. Within Run the question brings them along.
func NewDevices(in Input) Devices {
	if in.devices != nil {
		return *in.devices
	}
	d := Devices{between: in.Between, nodes: make(map[cluster.NodeID]shelf, len(in.Nodes))}
	for _, n := range in.Nodes {
		s := shelf{devices: n.Devices, open: !n.Cordoned}
		for _, x := range n.Devices {
			if s.open && x.Health == cluster.Healthy {
				s.usable++
			}
		}
		d.usable += s.usable
		d.nodes[n.ID] = s
	}
	return d
}

// find looks for a device on a node: whether it is there and healthy, and whether it may be given to new work.
func (d Devices) find(node cluster.NodeID, id cluster.DeviceID) (there, sound, usable bool) {
	s := d.nodes[node]
	for i := range s.devices {
		if x := &s.devices[i]; x.ID == id {
			sound = x.Health == cluster.Healthy
			return true, sound, sound && s.open
		}
	}
	return false, false, false
}

// Usable is how many devices may be given to new work.
func (d Devices) Usable() int { return d.usable }

// Open is how many of them are on nodes that take the job.
func (d Devices) Open(j JobView) int {
	n := d.usable
	for i, id := range j.Excluded {
		if !slices.Contains(j.Excluded[:i], id) {
			n -= d.nodes[id].usable
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
		if there, _, _ := d.find(node, id); !there {
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
		if _, sound, _ := d.find(node, id); !sound || slices.Contains(j.Excluded, node) {
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
