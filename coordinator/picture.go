package coordinator

import (
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// picture is what many rules read off the records, read off once until they change.
type picture struct {
	*floor
	jobs    []*formed              // admitted, sorted by identifier
	planned map[slot]cluster.JobID // devices of live worlds that are not granted yet
	shelved int                    // how many have ended and can be resumed

	// Read off the jobs when first asked for; nil until then.
	ports []cluster.Endpoint       // of live generations
	names map[string]cluster.JobID // of jobs that have not ended
}

// floor is the part of the picture that changes only with nodes and grants.
type floor struct {
	nodes  []cluster.Node            // alive, sorted by identifier
	stands map[cluster.NodeID]*stand // of all nodes; the coordinator's own
	total  int                       // devices of nodes that are alive
	away   int                       // the same of those that are not
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
		c.calm++
	}
	if c.seen == nil {
		c.seen = c.drawJobs()
	}
	return c.seen
}

// forgetPicture lets everything be drawn anew that a change alters, and nothing
// else: a cluster has thousands of devices and jobs, and most changes concern one
// of them.
func (c *Coordinator) forgetPicture(at record.Place) {
	switch at.Kind {
	case record.KindEvent, record.KindDecision: // by which nothing is decided
	case record.KindNodeEvent, record.KindProgress, record.KindRequest, record.KindAsked: // which are read where they are needed, if at all
	case record.KindSaved, record.KindOffer, record.KindAck:
		c.forgetJob(at.Job)
	case record.KindGrant:
		c.forgetStand(at.Node)
		c.forgetJob(at.Job)
		c.ground = nil
	case record.KindAlive, record.KindInventory, record.KindFencing, record.KindCordon:
		c.forgetStand(at.Node)
		c.ground, c.seen, c.unread = nil, nil, true
	case record.KindUnknown, record.KindMeta, record.KindLeader, record.KindPaused, record.KindLimits,
		record.KindSpec, record.KindWanted, record.KindState, record.KindPlan, record.KindPermit, record.KindHalt, record.KindFence,
		record.KindRescale, record.KindCommitted, record.KindCheckpoint, record.KindBadCheckpoint:
		if at.Job != "" {
			c.forgetJob(at.Job)
			return
		}
		c.seen, c.unread = nil, true // of the whole cluster, such as its being paused
	}
}

// forgetJob lets one job be read anew.
func (c *Coordinator) forgetJob(id cluster.JobID) {
	c.stale[id] = true
	c.seen = nil
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
		} else {
			p.away += len(c.mirror.Node(id).Inventory.Value.Devices)
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

func (c *Coordinator) drawJobs() *picture {
	if c.unread {
		c.unread = false
		for _, id := range c.mirror.JobIDs() {
			c.stale[id] = true
		}
	}
	came, requeue := false, false
	for id := range c.stale {
		v, f := c.mirror.Job(id), c.forms[id]
		requeue = requeue || c.front[id] || v.State.Value.Phase == cluster.Queued
		switch admitted := v.Spec.Exists() && v.State.Exists(); {
		case admitted && f != nil:
			c.reread(f, v)
		case admitted:
			f = &formed{}
			c.reread(f, v)
			c.forms[id], came = f, true
		case f != nil:
			c.countEnded(f, nil)
			delete(c.forms, id)
			c.forgetWaits(id)
			delete(c.refused, id)
			delete(c.tight, id)
			c.ungrant(id)
			came = true
		}
	}
	clear(c.stale)
	if came {
		c.roster = make([]*formed, 0, len(c.forms))
		for _, id := range c.mirror.JobIDs() {
			if f := c.forms[id]; f != nil {
				c.roster = append(c.roster, f)
			}
		}
	}
	if requeue {
		c.drawFront()
	}
	p := &picture{floor: c.ground, jobs: c.roster}
	for _, f := range p.jobs {
		if f.shelved() {
			p.shelved++
		}
		for _, s := range f.owed {
			if p.planned == nil {
				p.planned = map[slot]cluster.JobID{}
			}
			p.planned[s] = f.ID
		}
	}
	return p
}

// reread reads a job off the records, and counts it if it has ended.
func (c *Coordinator) reread(f *formed, v *record.JobView) {
	c.countEnded(f, nil)
	c.read(f, v)
	f.owner = v.Spec.Value.Owner.UID
	if f.state().Phase.Terminal() {
		c.countEnded(f, &kept{1, v.Bytes()})
	}
}

// read reads a job off the records, on the floor that has been drawn. One that
// takes no part in decisions any more has nothing coming, whichever answer granted
// it and when: the question may have been asked before the job ended, and the
// answer have come while its end was on its way. What it was promised would keep
// devices idle to the next decision. When it is back, it is to be asked for again.
func (c *Coordinator) read(f *formed, v *record.JobView) {
	*f = c.formed(v)
	f.fault, f.looked = c.faulty(*f), true
	f.owed = c.owed(*f)
	if c.targets.of[f.ID].Workers() > 0 && !c.asksFor(*f) {
		c.ungrant(f.ID)
		c.round.full, c.round.idle = nil, nil
	}
}

// jobs returns the jobs that have been admitted, sorted by identifier.
func (c *Coordinator) jobs() []*formed { return c.picture().jobs }

// job returns one of them, nil if it has not been admitted.
func (c *Coordinator) job(id cluster.JobID) *formed {
	c.picture()
	return c.forms[id]
}

// nodes returns what decisions may know of the nodes that are alive, sorted.
func (c *Coordinator) nodes() []cluster.Node { return c.picture().nodes }

// drawFront reads off who is first in the queue, and rouses those who came to its
// front or left it: they are told otherwise why they wait.
func (c *Coordinator) drawFront() {
	before, queue := c.front, c.mirror.Queue()
	c.front = make(map[cluster.JobID]bool, min(len(queue), closelyExplained))
	for _, id := range queue[:min(len(queue), closelyExplained)] {
		if c.front[id] = true; !before[id] {
			c.rouse(id)
		}
	}
	for id := range before {
		if !c.front[id] {
			c.rouse(id)
		}
	}
}

// atFront reports whether the job is among the first of the queue.
func (c *Coordinator) atFront(job cluster.JobID) bool {
	c.picture()
	return c.front[job]
}

// ports returns where the live generations meet. The list is the picture's own.
func (c *Coordinator) ports() []cluster.Endpoint {
	p := c.picture()
	if p.ports == nil {
		p.ports = []cluster.Endpoint{}
		for _, f := range p.jobs {
			if f.state().Phase.Active() {
				p.ports = append(p.ports, f.world().Master)
			}
		}
	}
	return p.ports
}

// named returns the job that has the name and has not ended.
func (c *Coordinator) named(name string) (cluster.JobID, bool) {
	p := c.picture()
	if p.names == nil {
		p.names = make(map[string]cluster.JobID, len(p.jobs))
		for _, f := range p.jobs {
			if own := f.Spec.Value.Name; !f.state().Phase.Terminal() && p.names[own] == "" {
				p.names[own] = f.ID
			}
		}
	}
	id, used := p.names[name]
	return id, used
}
