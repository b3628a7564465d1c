package coordinator

import (
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// usable reports whether the device may be given to new work of the job.
func (c *Coordinator) usable(s slot, excluded map[cluster.NodeID]string) bool {
	_, refused := excluded[s.node]
	healthy, _ := c.picture().health(s)
	return !refused && healthy && !c.mirror.Node(s.node).Cordon.Exists()
}

// holders returns the jobs other than this to which the device is granted, or will be if a START lands.
func (c *Coordinator) holders(s slot, job cluster.JobID) []cluster.JobID {
	var out []cluster.JobID
	for _, id := range c.picture().holds(s) {
		if id != job {
			out = append(out, id)
		}
	}
	if id, waits := c.picture().planned[s]; waits && id != job {
		out = append(out, id)
	}
	if c.claimed(s.device, job) {
		out = append(out, "a start under way")
	}
	return out
}

// free reports whether nobody but the job itself has the device.
func (c *Coordinator) free(s slot, job cluster.JobID) bool {
	p := c.picture()
	for _, id := range p.holds(s) {
		if id != job {
			return false
		}
	}
	id, waits := p.planned[s]
	return (!waits || id == job) && !c.claimed(s.device, job)
}

// idle reports whether a device could be given to new work at once.
func (c *Coordinator) idle() bool {
	for _, n := range c.nodes() {
		if n.Cordoned {
			continue
		}
		for _, d := range n.Devices {
			if d.Health == cluster.Healthy && !c.promised(d.ID, "") && c.free(slot{n.ID, d.ID}, "") {
				return true
			}
		}
	}
	return false
}

// spare returns the nodes with only those devices that the job could start on now.
func (c *Coordinator) spare(f formed) []cluster.Node {
	nodes, barred := slices.Clone(c.nodes()), c.barred(f.JobView)
	for i, n := range nodes {
		nodes[i].Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d cluster.Device) bool {
			s := slot{n.ID, d.ID}
			return !c.usable(s, barred) || !c.free(s, f.ID) || c.promised(d.ID, f.ID)
		})
	}
	return nodes
}

// broken names a device of the world that is gone, or unsound in a job that
// need not keep it; empty if there is none.
func (c *Coordinator) broken(f formed) string {
	if f.looked {
		return f.fault
	}
	c.picture() // stands on the floor that faulty looks at
	return c.faulty(f)
}

// faulty looks for what broken names, on the floor that has been drawn.
func (c *Coordinator) faulty(f formed) string {
	for _, m := range f.world().Members {
		for _, d := range m.Devices {
			switch healthy, there := c.ground.health(slot{m.Node, d}); {
			case !there:
				return fmt.Sprintf("device %s of %s is gone", d, m.Node)
			case !healthy && !f.state().Pinned && c.mirror.Node(m.Node).Cordon.Value.Drain:
				return fmt.Sprintf("%s is drained: %s", m.Node, c.mirror.Node(m.Node).Cordon.Value.Reason)
			case !healthy && !f.state().Pinned:
				return fmt.Sprintf("device %s of %s is unhealthy", d, m.Node)
			}
		}
	}
	return ""
}
