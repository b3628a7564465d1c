package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// nodes returns what decisions may know of the nodes that are alive, sorted.
func (c *Coordinator) nodes() []cluster.Node {
	var out []cluster.Node
	for _, id := range c.mirror.NodeIDs() {
		if v := c.mirror.Node(id); v.Alive.Exists() {
			out = append(out, cluster.Node{ID: id, Devices: v.Inventory.Value.Devices, Cordoned: v.Cordon.Exists()})
		}
	}
	return out
}

// usable reports whether the device may be given to new work of the job.
func (c *Coordinator) usable(n cluster.NodeID, d cluster.DeviceID, excluded map[cluster.NodeID]string) bool {
	v := c.mirror.Node(n)
	if _, refused := excluded[n]; refused || !v.Alive.Exists() || v.Cordon.Exists() {
		return false
	}
	return slices.ContainsFunc(v.Inventory.Value.Devices, func(x cluster.Device) bool {
		return x.ID == d && x.Health == cluster.Healthy
	})
}

// holders returns the jobs other than this to which the device is granted, or will be if a START lands.
func (c *Coordinator) holders(n cluster.NodeID, d cluster.DeviceID, job cluster.JobID) []cluster.JobID {
	var out []cluster.JobID
	grants := c.mirror.Node(n).Grants
	for _, id := range c.mirror.JobIDs() {
		if id != job && grants[id].Exists() && slices.Contains(grants[id].Value.Devices, d) {
			out = append(out, id)
		}
	}
	if c.claimed(d, job) {
		out = append(out, "a start under way")
	}
	return out
}

// free reports whether nobody but the job itself has the device.
func (c *Coordinator) free(n cluster.NodeID, d cluster.DeviceID, job cluster.JobID) bool {
	return len(c.holders(n, d, job)) == 0
}

// promised reports whether a decision has granted the device to a job other than this.
func (c *Coordinator) promised(d cluster.DeviceID, job cluster.JobID) bool {
	for id, t := range c.targets {
		if id != job && t.holds(d) {
			return true
		}
	}
	return false
}

// idle counts the devices that could be given to new work at once.
func (c *Coordinator) idle() int {
	count := 0
	for _, n := range c.nodes() {
		for _, d := range n.Usable() {
			if c.free(n.ID, d, "") && !c.promised(d, "") {
				count++
			}
		}
	}
	return count
}

// spare returns the nodes with only those devices that the job could start on now.
func (c *Coordinator) spare(v *record.JobView) []cluster.Node {
	nodes := c.nodes()
	for i, n := range nodes {
		nodes[i].Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d cluster.Device) bool {
			return !c.usable(n.ID, d.ID, v.State.Value.Excluded) || !c.free(n.ID, d.ID, v.ID) || c.promised(d.ID, v.ID)
		})
	}
	return nodes
}

// broken reports whether the world uses a device that is gone, or, unless the job must keep it, unsound.
func (c *Coordinator) broken(f formed) bool {
	for _, m := range f.world().Members {
		v := c.mirror.Node(m.Node)
		for _, id := range m.Devices {
			sound := slices.ContainsFunc(v.Inventory.Value.Devices, func(d cluster.Device) bool {
				return d.ID == id && (d.Health == cluster.Healthy || f.state().Pinned)
			})
			if !sound || !v.Alive.Exists() {
				return true
			}
		}
	}
	return false
}
