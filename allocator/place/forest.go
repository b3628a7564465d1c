package place

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// forest is a placement as Repair changes it: which job has which slot of the cluster. Slots
// are in the order of the topology, so that a domain is a range of them.
type forest struct {
	slots   []place
	owner   []int     // by slot: the index of a body, or
	domains []*domain // innermost first; the whole cluster is the last
	nodes   []*domain
	bodies  []body
	known   map[int][]*domain // homes by size
}

// The owners of a slot that no job has.
const (
	nobodys = -1
	closed  = -2 // it is not open to new work
)

type place struct {
	node   int
	device cluster.DeviceID
}

// domain is a group, a NUMA node, a node, or a location of several nodes.
type domain struct {
	lo, hi int // slots
	usable int // of them
	inner  []*domain
	node   cluster.NodeID // of which it is a part, or the whole; empty = it has several
}

// body is a job of the placement.
type body struct {
	Count
	slots []int // ascending
	start []int // as Place has placed it
	// stays: it runs where Place leaves it, so that to move it costs Count.MoveCost.
	stays   bool
	touched bool                    // Repair has changed where it is
	away    map[cluster.NodeID]bool // nodes that it excludes
}

// movable reports whether it may be put elsewhere.
func (b *body) movable() bool { return len(b.slots) > 0 && (!b.stays || b.MoveCost > 0) }

// cost is what it costs to move it from where Place has placed it.
func (b *body) cost() float64 {
	if b.stays {
		return b.MoveCost
	}
	return 0
}

// newForest is the result of Place as a forest.
func newForest(q Question, r Result) *forest {
	f := &forest{bodies: make([]body, len(q.Want)), known: map[int][]*domain{}}
	nodes := slices.Clone(q.Nodes)
	slices.SortFunc(nodes, func(x, y cluster.Node) int {
		return cmp.Or(strings.Compare(x.Location, y.Location), strings.Compare(string(x.ID), string(y.ID)))
	})
	at := map[cluster.DeviceID]int{}
	for n, node := range nodes {
		devices, spans := arrange(node.Devices)
		lo := len(f.slots)
		for _, d := range devices {
			at[d.ID] = len(f.slots)
			f.slots = append(f.slots, place{n, d.ID})
			owner := closed
			if d.Health == cluster.Healthy && !node.Cordoned {
				owner = nobodys
			}
			f.owner = append(f.owner, owner)
		}
		for _, sp := range spans {
			f.domains = append(f.domains, &domain{lo: lo + sp.lo, hi: lo + sp.hi, node: node.ID})
		}
		f.nodes = append(f.nodes, f.domains[len(f.domains)-1])
	}
	f.addLocations(nodes)
	f.nest()
	held := map[cluster.JobID]cluster.Allocation{}
	for _, a := range q.Current {
		held[a.Job] = a
	}
	placed := map[cluster.JobID]cluster.Allocation{}
	for _, a := range r.Allocations {
		placed[a.Job] = a
	}
	for i, c := range q.Want {
		b := &f.bodies[i]
		b.Count = c
		a := placed[c.Job]
		b.stays = a.Placements != nil && slices.EqualFunc(a.Placements, held[c.Job].Placements, samePlacement)
		for _, p := range a.Placements {
			for _, d := range p.Devices {
				if s, ok := at[d]; ok {
					b.slots = append(b.slots, s)
				}
			}
		}
		slices.Sort(b.slots)
		b.start = b.slots
		for _, s := range b.slots {
			if f.owner[s] == closed {
				b.MoveCost, b.stays = 0, true // it keeps what no other may have
			}
			f.owner[s] = i
		}
		if len(c.Excluded) > 0 {
			b.away = map[cluster.NodeID]bool{}
			for _, n := range c.Excluded {
				b.away[n] = true
			}
		}
	}
	return f
}

func samePlacement(x, y cluster.Placement) bool {
	return x.Node == y.Node && slices.Equal(x.Devices, y.Devices)
}

// addLocations adds the locations of nodes, which are sorted by them, and the cluster.
func (f *forest) addLocations(nodes []cluster.Node) {
	in := map[string]*domain{}
	for n, node := range nodes {
		for _, l := range locations(node.Location) {
			if in[l] == nil {
				in[l] = &domain{lo: f.nodes[n].lo}
				f.domains = append(f.domains, in[l])
			}
			in[l].hi = f.nodes[n].hi
		}
	}
	f.domains = append(f.domains, &domain{hi: len(f.slots)})
}

// nest finds out which domain lies in which. Of equal ones the later lies outside.
func (f *forest) nest() {
	order := slices.Clone(f.domains)
	slices.Reverse(order)
	slices.SortStableFunc(order, func(x, y *domain) int { return cmp.Or(x.lo-y.lo, y.hi-x.hi) })
	var within []*domain
	for _, d := range order {
		for len(within) > 0 && within[len(within)-1].hi <= d.lo {
			within = within[:len(within)-1]
		}
		if n := len(within); n > 0 {
			out := within[n-1]
			out.inner = append(out.inner, d)
		}
		within = append(within, d)
		for _, o := range f.owner[d.lo:d.hi] {
			if o != closed {
				d.usable++
			}
		}
	}
}

// put gives the job the slots, instead of those that it has.
func (f *forest) put(i int, slots []int) {
	for _, s := range f.bodies[i].slots {
		f.owner[s] = nobodys
	}
	for _, s := range slots {
		f.owner[s] = i
	}
	f.bodies[i].slots = slots
}

// free lists the free slots of a domain.
func (f *forest) free(d *domain) []int {
	var all []int
	for s := d.lo; s < d.hi; s++ {
		if f.owner[s] == nobodys {
			all = append(all, s)
		}
	}
	return all
}

// tight reports whether no part of the domain could hold k workers, and it could.
func (d *domain) tight(k int) bool {
	return d.usable >= k && !slices.ContainsFunc(d.inner, func(in *domain) bool { return in.usable >= k })
}

// homes are the domains that hold k workers as closely as any: those of a node that
// are tight where a node can hold them, and else all locations with enough devices.
func (f *forest) homes(k int) []*domain {
	if known, ok := f.known[k]; ok {
		return known
	}
	var all, wide []*domain
	for _, d := range f.domains {
		switch {
		case d.node != "" && d.tight(k):
			all = append(all, d)
		case d.node == "" && d.usable >= k:
			wide = append(wide, d)
		}
	}
	if all == nil {
		all = wide
	}
	f.known[k] = all
	return all
}

// close reports whether a job is as close together as it can be.
func (f *forest) close(i int) bool {
	b := &f.bodies[i]
	k := len(b.slots)
	if k < 2 {
		return true
	}
	lo, hi := b.slots[0], b.slots[k-1]
	if n := f.slots[lo].node; n == f.slots[hi].node {
		return !slices.ContainsFunc(f.nodes[n].common(lo, hi).inner, func(in *domain) bool { return in.usable >= k })
	}
	sizes, on := make([]int, len(f.nodes)), map[int]bool{}
	for n, d := range f.nodes {
		sizes[n] = d.usable
	}
	for _, s := range b.slots {
		on[f.slots[s].node] = true
	}
	slices.Sort(sizes)
	least := 0
	for rest := k; rest > 0 && least < len(sizes); least++ {
		rest -= sizes[len(sizes)-1-least]
	}
	return len(on) <= least
}

// common is the smallest part of a domain that has both slots.
func (d *domain) common(lo, hi int) *domain {
	for _, in := range d.inner {
		if in.lo <= lo && hi < in.hi {
			return in.common(lo, hi)
		}
	}
	return d
}

// allocation is the job's, its members in rank order: those with more devices first.
func (f *forest) allocation(i int, q Question) cluster.Allocation {
	b := &f.bodies[i]
	a := cluster.Allocation{Job: b.Job, BatchSize: b.BatchSize}
	last := -1
	for _, s := range b.slots {
		if n := f.slots[s].node; n != last {
			a.Placements = append(a.Placements, cluster.Placement{Node: f.nodes[n].node})
			last = n
		}
		p := &a.Placements[len(a.Placements)-1]
		p.Devices = append(p.Devices, f.slots[s].device)
	}
	var old []cluster.Placement
	for _, h := range q.Current {
		if h.Job == b.Job {
			old = h.Placements
		}
	}
	rank := func(p cluster.Placement) int {
		if k := slices.IndexFunc(old, func(o cluster.Placement) bool { return o.Node == p.Node }); k >= 0 {
			return k
		}
		return len(old)
	}
	slices.SortStableFunc(a.Placements, func(x, y cluster.Placement) int {
		return cmp.Or(len(y.Devices)-len(x.Devices), rank(x)-rank(y), strings.Compare(string(x.Node), string(y.Node)))
	})
	return a
}
