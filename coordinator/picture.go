package coordinator

import (
	"maps"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// picture is what many rules read off the records, read off once until they change.
type picture struct {
	*floor
	jobs    []formed                 // admitted, sorted by identifier
	planned map[slot]cluster.JobID   // devices of live worlds that are not granted yet
	front   map[cluster.JobID]bool   // the first jobs of the queue
	ports   []cluster.Endpoint       // of live generations
	names   map[string]cluster.JobID // of jobs that have not ended
}

// floor is the part of the picture that changes only with nodes and grants.
type floor struct {
	nodes   []cluster.Node                     // alive, sorted by identifier
	grants  map[slot][]cluster.JobID           // who has the device
	granted map[cluster.JobID][]cluster.NodeID // where the job has devices
	healthy map[slot]bool                      // devices of nodes that are alive
	total   int                                // of those devices
	usable  int                                // of those, the ones that may be given to new work
}

// slot is one device where a node has it.
type slot struct {
	node   cluster.NodeID
	device cluster.DeviceID
}

// picture returns the records' picture. Every change of the mirror forgets it.
func (c *Coordinator) picture() *picture {
	if c.ground == nil {
		c.ground = c.drawFloor()
	}
	if c.seen == nil {
		c.seen = &picture{floor: c.ground}
		c.drawJobs(c.seen)
	}
	return c.seen
}

// forgetPicture lets everything be drawn anew that a change of the key alters.
func (c *Coordinator) forgetPicture(key string) {
	rest, below := strings.CutPrefix(key, record.NodesPrefix)
	_, what, _ := strings.Cut(rest, "/")
	kind, _, _ := strings.Cut(what, "/")
	switch {
	case !below:
		c.seen = nil
	case kind == "progress": // which comes all the time and is read where it is needed
	case kind == "ack", kind == "saved", kind == "offer", kind == "submit":
		c.seen = nil
	default:
		c.seen, c.ground = nil, nil
	}
}

func (c *Coordinator) drawFloor() *floor {
	ids := c.mirror.NodeIDs()
	p := &floor{
		grants:  make(map[slot][]cluster.JobID, c.devices),
		granted: make(map[cluster.JobID][]cluster.NodeID, len(ids)),
		healthy: make(map[slot]bool, c.devices),
	}
	for _, id := range ids {
		v := c.mirror.Node(id)
		for _, job := range slices.Sorted(maps.Keys(v.Grants)) {
			p.granted[job] = append(p.granted[job], id)
			for _, d := range v.Grants[job].Value.Devices {
				p.grants[slot{id, d}] = append(p.grants[slot{id, d}], job)
			}
		}
		if !v.Alive.Exists() {
			continue
		}
		n := cluster.Node{ID: id, Devices: v.Inventory.Value.Devices, Cordoned: v.Cordon.Exists()}
		if v.Cordon.Value.Drain {
			n.Devices = unfit(n.Devices)
		}
		p.nodes = append(p.nodes, n)
		p.total += len(n.Devices)
		p.usable += len(n.Usable())
		for _, d := range n.Devices {
			p.healthy[slot{id, d.ID}] = d.Health == cluster.Healthy
		}
	}
	c.devices = p.total
	return p
}

func (c *Coordinator) drawJobs(p *picture) {
	ids := c.mirror.JobIDs()
	p.names, p.jobs = make(map[string]cluster.JobID, len(ids)), make([]formed, 0, len(ids))
	for _, id := range ids {
		v := c.mirror.Job(id)
		if !v.Spec.Exists() || !v.State.Exists() {
			continue
		}
		f := c.formed(v)
		p.jobs = append(p.jobs, f)
		c.awaitGrants(p, f)
		phase := f.State.Value.Phase
		if phase.Active() {
			p.ports = append(p.ports, f.gen.Plan.Value.World.Master)
		}
		if name := v.Spec.Value.Name; !phase.Terminal() && p.names[name] == "" {
			p.names[name] = id
		}
	}
	queue := c.mirror.Queue()
	p.front = make(map[cluster.JobID]bool, min(len(queue), closelyExplained))
	for _, id := range queue[:min(len(queue), closelyExplained)] {
		p.front[id] = true
	}
}

// jobs returns the jobs that have been admitted, sorted by identifier.
func (c *Coordinator) jobs() []formed { return c.picture().jobs }

// nodes returns what decisions may know of the nodes that are alive, sorted.
func (c *Coordinator) nodes() []cluster.Node { return c.picture().nodes }
