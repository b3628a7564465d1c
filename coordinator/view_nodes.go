package coordinator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// nodeIndex is what the nodes' records say, by node and in sum.
type nodeIndex struct {
	entries map[cluster.NodeID]*nodeEntry
	granted map[cluster.JobID][]cluster.NodeID // where a job has grants, sorted
	belongs map[cluster.NodeID]bool            // nodes of the cluster, alive or not
	refused map[string]refusals                // by what a job demands of nodes
	asked   int                                // how often a node was asked what it refuses, for tests

	current bool           // what follows is derived from all entries
	live    []cluster.Node // the nodes that are alive, sorted by identifier
	total   int            // devices of these
	usable  int            // the devices of these that may be given to new work
	away    int            // devices of nodes that are not alive
}

// nodeEntry is one node.
type nodeEntry struct {
	node    cluster.Node
	alive   bool
	usable  int
	jobs    []cluster.JobID                      // that have grants on it, sorted
	grants  map[cluster.DeviceID][]cluster.JobID // by device
	healthy map[cluster.DeviceID]bool            // its devices, if it is alive
}

// deviceRef is one device where a node has it.
type deviceRef struct {
	node   cluster.NodeID
	device cluster.DeviceID
}

func newNodeIndex() nodeIndex {
	return nodeIndex{
		entries: map[cluster.NodeID]*nodeEntry{}, granted: map[cluster.JobID][]cluster.NodeID{},
		belongs: map[cluster.NodeID]bool{}, refused: map[string]refusals{},
	}
}

// invalidate has a node derived again, and what nodes refuse.
func (x *nodeIndex) invalidate(id cluster.NodeID) {
	x.invalidateGrants(id)
	clear(x.refused)
}

// invalidateGrants has a node derived again of which only grants have changed.
func (x *nodeIndex) invalidateGrants(id cluster.NodeID) {
	x.current = false
	entry := x.entries[id]
	if entry == nil {
		return
	}
	delete(x.entries, id)
	for _, job := range entry.jobs {
		left := slices.DeleteFunc(x.granted[job], func(n cluster.NodeID) bool { return n == id })
		if x.granted[job] = left; len(left) == 0 {
			delete(x.granted, job)
		}
	}
}

// invalidateAll has every node derived again.
func (x *nodeIndex) invalidateAll() {
	for _, id := range slices.Sorted(maps.Keys(x.entries)) {
		x.invalidate(id)
	}
}

// alone takes in whether a node belongs to the cluster, and reports whether there
// are, or were before, so few that one of them may be alone in it.
func (x *nodeIndex) alone(n *record.NodeView) bool {
	before := len(x.belongs)
	if n.Belongs() {
		x.belongs[n.ID] = true
	} else {
		delete(x.belongs, n.ID)
	}
	return min(before, len(x.belongs)) <= 2
}

// refresh derives what has changed.
func (x *nodeIndex) refresh(m *record.Mirror) {
	if x.current {
		return
	}
	x.current, x.live, x.total, x.usable, x.away = true, nil, 0, 0, 0
	for _, id := range m.NodeIDs() {
		entry := x.entries[id]
		if entry == nil {
			entry = newNodeEntry(m.Node(id))
			x.entries[id] = entry
			for _, job := range entry.jobs {
				at, _ := slices.BinarySearch(x.granted[job], id)
				x.granted[job] = slices.Insert(x.granted[job], at, id)
			}
		}
		if entry.alive {
			x.live = append(x.live, entry.node)
			x.total += len(entry.node.Devices)
			x.usable += entry.usable
		} else {
			x.away += len(m.Node(id).Inventory.Value.Devices)
		}
	}
}

func newNodeEntry(v *record.NodeView) *nodeEntry {
	entry := &nodeEntry{alive: v.Alive.Exists(), grants: map[cluster.DeviceID][]cluster.JobID{}, healthy: map[cluster.DeviceID]bool{}}
	entry.jobs = slices.Sorted(maps.Keys(v.Grants))
	for _, job := range entry.jobs {
		for _, d := range v.Grants[job].Value.Devices {
			entry.grants[d] = append(entry.grants[d], job)
		}
	}
	if !entry.alive {
		return entry
	}
	entry.node = cluster.Node{ID: v.ID, Devices: v.Inventory.Value.Devices, Cordoned: v.Cordon.Exists()}
	if v.Cordon.Value.Drain {
		entry.node.Devices = unhealthy(entry.node.Devices)
	}
	entry.usable = len(entry.node.Usable())
	for _, d := range entry.node.Devices {
		entry.healthy[d.ID] = d.Health == cluster.Healthy
	}
	return entry
}

// unhealthy is a draining node's devices as decisions see them: none that a job could stay on.
func unhealthy(devices []cluster.Device) []cluster.Device {
	out := make([]cluster.Device, len(devices))
	for i, d := range devices {
		d.Health = cluster.Unhealthy
		out[i] = d
	}
	return out
}

// holders returns the jobs to which the device is granted.
func (x *nodeIndex) holders(d deviceRef) []cluster.JobID {
	if entry := x.entries[d.node]; entry != nil {
		return entry.grants[d.device]
	}
	return nil
}

// health reports whether a live node has the device, and whether that is healthy.
func (x *nodeIndex) health(d deviceRef) (healthy, there bool) {
	if entry := x.entries[d.node]; entry != nil {
		healthy, there = entry.healthy[d.device]
	}
	return healthy, there
}

// refusals are nodes on which a job must not start. Both are shared, and not to be changed.
type refusals struct {
	why   map[cluster.NodeID]string
	nodes []cluster.NodeID // the same, sorted
}

// refusals returns the nodes on which the job must not start: those that have
// refused it, those that it does not want, and those that would not keep its limits
// or would let it gain rights.
func (v *view) refusals(j *job) refusals {
	demanded, excluded := v.refusedBy(j), j.State.Value.Excluded
	switch {
	case len(excluded) == 0:
		return demanded
	case len(demanded.why) == 0:
		return refusals{excluded, slices.Sorted(maps.Keys(excluded))}
	}
	why := maps.Clone(demanded.why)
	for n, reason := range excluded {
		if reason != "" || why[n] == "" {
			why[n] = reason
		}
	}
	return refusals{why, slices.Sorted(maps.Keys(why))}
}

// demandsOf writes what a job demands of nodes; jobs that demand the same have the same text.
func demandsOf(s *cluster.Spec) string {
	limited := s.PerWorker != cluster.Limits{}
	if s.Where.Anywhere() && !limited && !s.NoNewPrivs {
		return ""
	}
	return fmt.Sprintf("%#v %v %v", s.Where, limited, s.NoNewPrivs)
}

// refusedBy returns the live nodes that do not meet what the job demands. Jobs that
// demand the same share the answer, until a node changes: with thousands of jobs
// and nodes the product is more than a Step can look at.
func (v *view) refusedBy(j *job) refusals {
	if j.demands == "" {
		return refusals{}
	}
	if known, ok := v.byNode.refused[j.demands]; ok && !v.noCache {
		return known
	}
	spec := &j.Spec.Value.Spec
	r := refusals{why: map[cluster.NodeID]string{}}
	for _, n := range v.live() {
		v.byNode.asked++
		why := spec.Where.Refuses(n)
		if alive := v.node(n.ID).Alive.Value; why == "" && spec.PerWorker != (cluster.Limits{}) && !alive.Limits {
			why = "its agent is of a version that knows no limits of workers: upgrade it"
		} else if why == "" && spec.NoNewPrivs && !alive.NoNewPrivs {
			why = "its agent is of a version that does not know --no-new-privs: upgrade it"
		}
		if why != "" {
			r.why[n.ID] = why
			r.nodes = append(r.nodes, n.ID)
		}
	}
	v.byNode.refused[j.demands] = r
	return r
}

// refusedEverywhere reports whether nodes are alive and all of them refuse the job.
func (v *view) refusedEverywhere(j *job) bool {
	r := v.refusals(j)
	if len(r.why) == 0 {
		return false
	}
	live := v.live()
	return len(live) > 0 && !slices.ContainsFunc(live, func(n cluster.Node) bool {
		_, refused := r.why[n.ID]
		return !refused
	})
}
