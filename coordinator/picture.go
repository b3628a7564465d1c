package coordinator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// picture is what many rules read off the records, read off once until they change.
type picture struct {
	jobs    []formed       // admitted, sorted by identifier
	nodes   []cluster.Node // alive, sorted by identifier
	queue   map[cluster.JobID]int
	grants  map[slot][]cluster.JobID
	healthy map[slot]bool // devices of nodes that are alive
	total   int           // of those devices
	usable  int           // of those, the ones that may be given to new work
}

// slot is one device where a node has it.
type slot struct {
	node   cluster.NodeID
	device cluster.DeviceID
}

// picture returns the records' picture. Every change of the mirror forgets it.
func (c *Coordinator) picture() *picture {
	if c.seen == nil {
		c.seen = &picture{}
		c.drawNodes(c.seen)
		c.drawJobs(c.seen)
	}
	return c.seen
}

func (c *Coordinator) drawNodes(p *picture) {
	p.grants, p.healthy = map[slot][]cluster.JobID{}, map[slot]bool{}
	for _, id := range c.mirror.NodeIDs() {
		v := c.mirror.Node(id)
		for _, job := range slices.Sorted(maps.Keys(v.Grants)) {
			for _, d := range v.Grants[job].Value.Devices {
				p.grants[slot{id, d}] = append(p.grants[slot{id, d}], job)
			}
		}
		if !v.Alive.Exists() {
			continue
		}
		n := cluster.Node{ID: id, Devices: v.Inventory.Value.Devices, Cordoned: v.Cordon.Exists()}
		p.nodes = append(p.nodes, n)
		p.total += len(n.Devices)
		p.usable += len(n.Usable())
		for _, d := range v.Inventory.Value.Devices {
			p.healthy[slot{id, d.ID}] = d.Health == cluster.Healthy
		}
	}
}

func (c *Coordinator) drawJobs(p *picture) {
	var queued []formed
	for _, id := range c.mirror.JobIDs() {
		v := c.mirror.Job(id)
		if !v.Spec.Exists() || !v.State.Exists() {
			continue
		}
		f := c.formed(v)
		p.jobs = append(p.jobs, f)
		if f.state().Phase == cluster.Queued {
			queued = append(queued, f)
		}
	}
	// Important ones first, then old ones.
	slices.SortFunc(queued, func(x, y formed) int {
		a, b := x.Spec.Value, y.Spec.Value
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	p.queue = map[cluster.JobID]int{}
	for i, f := range queued {
		p.queue[f.ID] = i + 1
	}
}

// jobs returns the jobs that have been admitted, sorted by identifier.
func (c *Coordinator) jobs() []formed { return c.picture().jobs }

// nodes returns what decisions may know of the nodes that are alive, sorted.
func (c *Coordinator) nodes() []cluster.Node { return c.picture().nodes }
