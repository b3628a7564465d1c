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

	current  bool           // what follows is derived from all entries
	live     []cluster.Node // the nodes that are alive, sorted by identifier
	total    int            // devices of these
	usable   int            // the devices of these that may be given to new work
	most     int            // devices of the largest of these
	away     int            // devices of nodes that are not alive
	models   []string       // of the devices of these that may run anything, sorted
	promise  string         // the model that promises are planned on; empty where there is one alone
	stranded bool           // some device is held by a job of which nothing can be decided
	orphans  bool           // some grant may be of a job whose records are gone: nothing can be decided about it
}

// nodeEntry is one node.
type nodeEntry struct {
	node    cluster.Node
	alive   bool
	usable  int
	models  []string                             // of the devices that may run anything, if it is alive
	of      map[string]int                       // its devices by model, alive or not
	open    int                                  // usable, and held by no job of which nothing can be decided
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
	before := x.stranded
	x.current, x.live, x.total, x.usable, x.most, x.away, x.stranded, x.orphans = true, nil, 0, 0, 0, 0, false, false
	x.models, x.promise = nil, ""
	of := map[string]int{}
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
		for m, n := range entry.of {
			of[m] += n
		}
		x.orphans = x.orphans || slices.ContainsFunc(entry.jobs, func(id cluster.JobID) bool { return !decidable(m, id) })
		if entry.alive {
			node := entry.node
			entry.open = entry.usable
			if stranded := entry.stranded(m); len(stranded) > 0 {
				node.Devices = unhealthy(node.Devices, func(d cluster.DeviceID) bool { return stranded[d] })
				entry.open = len(node.Usable())
				x.stranded = true
			}
			x.live = append(x.live, node)
			for _, m := range entry.models {
				if at, found := slices.BinarySearch(x.models, m); !found {
					x.models = slices.Insert(x.models, at, m)
				}
			}
			x.total += len(node.Devices)
			x.most = max(x.most, len(node.Devices))
			x.usable += entry.open
		} else {
			x.away += len(m.Node(id).Inventory.Value.Devices)
		}
	}
	if len(x.models) > 1 {
		x.promise = slices.MaxFunc(x.models, func(a, b string) int { return of[a] - of[b] })
	}
	if before || x.stranded {
		clear(x.refused) // what refusing nodes have is counted there
	}
}

// devicesOf counts the devices of those of the nodes that are alive, and of these
// the ones that may be given to new work.
func (x *nodeIndex) devicesOf(nodes []cluster.NodeID) (total, usable int) {
	for _, id := range nodes {
		if entry := x.entries[id]; entry != nil && entry.alive {
			total += len(entry.node.Devices)
			usable += entry.open
		}
	}
	return total, usable
}

// stranded are the devices held by jobs of which nothing can be decided: none of
// them will be free for any other job by what a decision does.
func (e *nodeEntry) stranded(m *record.Mirror) map[cluster.DeviceID]bool {
	var out map[cluster.DeviceID]bool
	for _, job := range e.jobs {
		if decidable(m, job) {
			continue
		}
		for _, d := range m.Node(e.node.ID).Grants[job].Value.Devices {
			if out == nil {
				out = map[cluster.DeviceID]bool{}
			}
			out[d] = true
		}
	}
	return out
}

// decidable reports whether the job is recorded, in a phase that this version knows.
func decidable(m *record.Mirror, id cluster.JobID) bool {
	v := m.Job(id)
	return v.Spec.Exists() && v.State.Value.Phase.Known()
}

func newNodeEntry(v *record.NodeView) *nodeEntry {
	entry := &nodeEntry{
		alive: v.Alive.Exists(), of: map[string]int{}, grants: map[cluster.DeviceID][]cluster.JobID{}, healthy: map[cluster.DeviceID]bool{},
	}
	for _, d := range v.Inventory.Value.Devices {
		entry.of[d.ModelName()]++
	}
	entry.jobs = slices.Sorted(maps.Keys(v.Grants))
	for _, job := range entry.jobs {
		for _, d := range v.Grants[job].Value.Devices {
			entry.grants[d] = append(entry.grants[d], job)
		}
	}
	if !entry.alive {
		return entry
	}
	entry.node, _ = v.Inventory.Value.Node(v.ID)
	entry.node.Cordoned = v.Cordon.Exists()
	if v.Cordon.Value.Drain {
		entry.node.Devices = unhealthy(entry.node.Devices, func(cluster.DeviceID) bool { return true })
	}
	entry.usable = len(entry.node.Usable())
	entry.models = cluster.Models([]cluster.Node{entry.node})
	for _, d := range entry.node.Devices {
		entry.healthy[d.ID] = d.Health == cluster.Healthy
	}
	return entry
}

// unhealthy is a node's devices as decisions see them, some of them such that no job can
// be on them: those of a node that is drained, or of which nothing can be decided.
func unhealthy(devices []cluster.Device, which func(cluster.DeviceID) bool) []cluster.Device {
	out := slices.Clone(devices)
	for i, d := range out {
		if which(d.ID) {
			out[i].Health = cluster.Unhealthy
		}
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

	counted       bool // what these nodes have is known
	total, usable int  // devices of theirs
}

// demandsOf writes what a job demands of nodes; jobs that demand the same have the same text.
func demandsOf(s *cluster.Spec) string {
	limited := s.PerWorker != cluster.Limits{}
	if s.Where.Anywhere() && !limited && !s.NoNewPrivs {
		return ""
	}
	return fmt.Sprintf("%#v %v %v", s.Where, limited, s.NoNewPrivs)
}
