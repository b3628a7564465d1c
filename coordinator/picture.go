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
	nodes  []cluster.Node            // alive, sorted by identifier
	stands map[cluster.NodeID]*stand // of all nodes; the coordinator's own
	total  int                       // devices of nodes that are alive
	usable int                       // of those, the ones that may be given to new work
}

// stand is one node on the floor.
type stand struct {
	node    cluster.Node
	alive   bool
	usable  int
	jobs    []cluster.JobID                      // that have grants on it, sorted
	grants  map[cluster.DeviceID][]cluster.JobID // who has the device
	healthy map[cluster.DeviceID]bool            // its devices, if it is alive
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

// forgetPicture lets everything be drawn anew that a change of the key alters,
// and nothing else: a cluster has thousands of devices and jobs, and most
// changes concern one of them.
func (c *Coordinator) forgetPicture(key string) {
	rest, below := strings.CutPrefix(key, record.NodesPrefix)
	if !below {
		job, _, _ := strings.Cut(strings.TrimPrefix(key, record.JobsPrefix), "/")
		delete(c.forms, cluster.JobID(job))
		c.seen = nil
		return
	}
	node, what, _ := strings.Cut(rest, "/")
	kind, about, _ := strings.Cut(what, "/")
	switch kind {
	case "progress": // which comes all the time and is read where it is needed
	case "saved", "offer", "submit":
		c.seen = nil
	case "ack":
		job, _, _ := strings.Cut(about, "/")
		delete(c.forms, cluster.JobID(job))
		c.seen = nil
	case "grants":
		c.forgetStand(cluster.NodeID(node))
		c.seen, c.ground = nil, nil
	default:
		c.forgetStand(cluster.NodeID(node))
		clear(c.forms)
		c.seen, c.ground = nil, nil
	}
}

func (c *Coordinator) drawFloor() *floor {
	p := &floor{stands: c.stands}
	for _, id := range c.mirror.NodeIDs() {
		s := c.stands[id]
		if s == nil {
			s = c.drawStand(id)
			c.stands[id] = s
			for _, job := range s.jobs {
				at, _ := slices.BinarySearch(c.granted[job], id)
				c.granted[job] = slices.Insert(c.granted[job], at, id)
			}
		}
		if s.alive {
			p.nodes = append(p.nodes, s.node)
			p.total += len(s.node.Devices)
			p.usable += s.usable
		}
	}
	return p
}

// forgetStand lets one node be drawn anew.
func (c *Coordinator) forgetStand(id cluster.NodeID) {
	s := c.stands[id]
	if s == nil {
		return
	}
	delete(c.stands, id)
	for _, job := range s.jobs {
		left := slices.DeleteFunc(c.granted[job], func(n cluster.NodeID) bool { return n == id })
		if c.granted[job] = left; len(left) == 0 {
			delete(c.granted, job)
		}
	}
}

func (c *Coordinator) drawStand(id cluster.NodeID) *stand {
	v := c.mirror.Node(id)
	s := &stand{alive: v.Alive.Exists(), grants: map[cluster.DeviceID][]cluster.JobID{}, healthy: map[cluster.DeviceID]bool{}}
	s.jobs = slices.Sorted(maps.Keys(v.Grants))
	for _, job := range s.jobs {
		for _, d := range v.Grants[job].Value.Devices {
			s.grants[d] = append(s.grants[d], job)
		}
	}
	if !s.alive {
		return s
	}
	s.node = cluster.Node{ID: id, Devices: v.Inventory.Value.Devices, Cordoned: v.Cordon.Exists()}
	if v.Cordon.Value.Drain {
		s.node.Devices = unfit(s.node.Devices)
	}
	s.usable = len(s.node.Usable())
	for _, d := range s.node.Devices {
		s.healthy[d.ID] = d.Health == cluster.Healthy
	}
	return s
}

// holds returns the jobs to which the device is granted.
func (p *floor) holds(s slot) []cluster.JobID {
	if at := p.stands[s.node]; at != nil {
		return at.grants[s.device]
	}
	return nil
}

// health reports whether a live node has the device, and whether that is healthy.
func (p *floor) health(s slot) (healthy, there bool) {
	if at := p.stands[s.node]; at != nil {
		healthy, there = at.healthy[s.device]
	}
	return healthy, there
}

func (c *Coordinator) drawJobs(p *picture) {
	if alone := c.alone(); alone != c.lonely {
		clear(c.forms)
		c.lonely = alone
	}
	ids := c.mirror.JobIDs()
	p.names, p.jobs = make(map[string]cluster.JobID, len(ids)), make([]formed, 0, len(ids))
	for _, id := range ids {
		v := c.mirror.Job(id)
		if !v.Spec.Exists() || !v.State.Exists() {
			continue
		}
		f, known := c.forms[id]
		if !known {
			f = c.formed(v)
			f.fault, f.looked = c.faulty(f), true
			c.forms[id] = f
		}
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
