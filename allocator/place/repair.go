package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Question is what Place was asked.
type Question struct {
	Nodes   []cluster.Node
	Current []cluster.Allocation
	Want    []Count
}

// Move is a job that keeps its size and gets other devices, so that another lies closer together.
type Move struct {
	Job      cluster.JobID
	From, To []cluster.Placement
	For      cluster.JobID // may be the job itself
}

// Repair has at most so many jobs moved that run where Place leaves them, so that others
// have a place, or lie as close together as they can: within one group, NUMA node or node,
// or on as few nodes as would hold them. It answers with the placement changed
// accordingly, and with the moves.
//
// A job's place is cleared by the cheapest set of smaller jobs that makes room there;
// those find a place as close as they can be themselves, in the same way, the largest
// first. As they are always smaller this ends. It is done where all moves together cost less than
// the job loses otherwise (Count.MoveCost, Count.SpanCost), for the jobs that lose most first.
//
// With worlds of 2^i workers on nodes of 2^n devices alike, whose groups and NUMA nodes
// have powers of two too, whatever fits by number finds a close place so, after fewer moves
// than it has workers (ElasticFlow, section on buddy allocation): free places that are all too
// small for 2^i workers have, together, at least 2^i devices only if two of them are of one
// size; jobs smaller than that fill the other half of one, and fit into the other.
//
// Where counts name models of devices, it is done with each model's by themselves.
func Repair(q Question, r Result, most int) (Result, []Move) {
	parts := q.parts()
	if parts == nil {
		return repair(q, r, most)
	}
	return q.inParts(parts, func(part Question) (Result, []Move) {
		if part.Want[0].Model == "" {
			return r.of(part.Want), nil // what is free for it depends on all others
		}
		repaired, moves := repair(part, r.of(part.Want), most)
		most -= len(moves)
		return repaired, moves
	})
}

// repair does it with counts that may have devices of any model.
func repair(q Question, r Result, most int) (Result, []Move) {
	if most < 1 || !mayBeApart(q, r) {
		return r, nil
	}
	f := newForest(q, r)
	var moves []Move
	for _, i := range f.apart() {
		if len(f.bodies[i].slots) > 0 && f.close(i) {
			continue // since another was brought together
		}
		moved := f.gather(i, most-len(moves))
		for _, k := range moved {
			b := &f.bodies[k]
			moves = append(moves, Move{Job: b.Job, From: placementsOf(r, b.Job), To: f.allocation(k, q).Placements, For: f.bodies[i].Job})
			b.MoveCost, b.start = 0, b.slots // once is enough
		}
	}
	return f.result(q, r), moves
}

// result is that of Place with what has been changed.
func (f *forest) result(q Question, r Result) Result {
	placed := map[cluster.JobID]cluster.Allocation{}
	for _, a := range r.Allocations {
		placed[a.Job] = a
	}
	out := Result{Unplaced: slices.DeleteFunc(slices.Clone(r.Unplaced), func(u Unplaced) bool {
		return slices.ContainsFunc(f.bodies, func(b body) bool { return b.Job == u.Job && b.touched })
	})}
	for i := range f.bodies {
		a, ok := placed[f.bodies[i].Job]
		if f.bodies[i].touched {
			a, ok = f.allocation(i, q), true
		}
		if ok {
			out.Allocations = append(out.Allocations, a)
		}
	}
	if len(out.Unplaced) == 0 {
		out.Unplaced = nil
	}
	return out
}

// mayBeApart reports whether a job could be closer together, as far as that can be told at a glance.
func mayBeApart(q Question, r Result) bool {
	if !slices.ContainsFunc(q.Want, func(c Count) bool { return c.SpanCost > 0 && c.Workers > 1 }) {
		return false
	}
	return r.Unplaced != nil || slices.ContainsFunc(r.Allocations, func(a cluster.Allocation) bool { return len(a.Placements) > 1 }) ||
		slices.ContainsFunc(q.Nodes, func(n cluster.Node) bool {
			return slices.ContainsFunc(n.Devices, func(d cluster.Device) bool { return d.Group != "" || d.NUMA != "" })
		})
}

func placementsOf(r Result, job cluster.JobID) []cluster.Placement {
	for _, a := range r.Allocations {
		if a.Job == job {
			return a.Placements
		}
	}
	return nil
}

// tried bounds the jobs for which a decision looks for moves: those that lose most.
const tried = 16

// apart lists the jobs that are not as close together as they can be, or have no place at
// all, and lose by that, most first.
func (f *forest) apart() []int {
	var all []int
	for i := range f.bodies {
		if b := &f.bodies[i]; b.SpanCost > 0 && b.Workers > 0 && (len(b.slots) == 0 || b.movable() && !f.close(i)) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(x, y int) int { return cmp.Compare(f.bodies[y].SpanCost, f.bodies[x].SpanCost) })
	return all[:min(len(all), tried)]
}

// attempts bounds the places that are tried for one job, the cheapest first.
const attempts = 4

// gather brings a job together where that pays, and returns the jobs that ran and move.
func (f *forest) gather(i, most int) []int {
	b := &f.bodies[i]
	before := b.slots
	f.put(i, nil)
	for _, o := range f.openings(i) {
		t := try{forest: f, before: map[int][]int{i: before}}
		if o.cost+b.cost() < b.SpanCost && t.take(i, o) {
			if moved, cost := t.moved(); len(moved) <= most && cost < b.SpanCost {
				for k, slots := range t.before {
					f.bodies[k].touched = f.bodies[k].touched || !slices.Equal(slots, f.bodies[k].slots)
				}
				return moved
			}
		}
		t.undo()
		f.put(i, nil)
	}
	f.put(i, before)
	return nil
}

// try is a change of the forest that can be undone.
type try struct {
	*forest
	before map[int][]int // the slots of all jobs that it has touched
}

func (t *try) undo() {
	for i := range t.before {
		t.put(i, nil)
	}
	for i, slots := range t.before {
		t.put(i, slots)
	}
}

// evict takes a job's slots.
func (t *try) evict(i int) {
	if _, ok := t.before[i]; !ok {
		t.before[i] = t.bodies[i].slots
	}
	t.put(i, nil)
}

// moved lists the jobs that ran and would move, in order, and what that costs.
func (t *try) moved() (all []int, cost float64) {
	for i := range t.before {
		if b := &t.bodies[i]; b.stays && !slices.Equal(b.start, b.slots) {
			all = append(all, i)
		}
	}
	slices.Sort(all)
	for _, i := range all {
		cost += t.bodies[i].MoveCost
	}
	return all, cost
}

// take clears an opening for job i, and finds other places for those that were there.
func (t *try) take(i int, o opening) bool {
	for _, k := range o.out {
		t.evict(k)
	}
	if _, ok := t.before[i]; !ok {
		t.before[i] = nil
	}
	t.put(i, o.slots(t.forest, t.bodies[i].Workers))
	out := slices.Clone(o.out)
	slices.SortFunc(out, func(x, y int) int { return cmp.Or(t.bodies[y].Workers-t.bodies[x].Workers, x-y) })
	for _, k := range out {
		all := t.openings(k)
		if len(all) == 0 || !t.take(k, all[0]) {
			return false
		}
	}
	return true
}

// opening is a place for a job, and which jobs have to leave it.
type opening struct {
	units []*domain // as much of each as it needs, or all of each
	out   []int
	cost  float64
	spare int // free devices of the domain beside it, the fewer the better it fits
}

// slots are k of it, once all have left.
func (o opening) slots(f *forest, k int) []int {
	var all []int
	for _, u := range o.units {
		all = append(all, f.free(u)...)
	}
	all = all[:k]
	slices.Sort(all)
	return all
}

// openings lists places for a job that has none, as close as it can be: the cheapest
// first, and of equals the one that fits best.
func (f *forest) openings(i int) []opening {
	b := &f.bodies[i]
	k := b.Workers
	var all []opening
	for _, d := range f.homes(k) {
		if d.node != "" && b.away[d.node] {
			continue
		}
		if o, ok := f.opening(d, b); ok {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(x, y opening) int { return cmp.Or(cmp.Compare(x.cost, y.cost), x.spare-y.spare) })
	return all[:min(len(all), attempts)]
}

// opening finds the cheapest room for a job in a domain: any of its devices where it has
// no parts, else as many whole parts as hold the job.
func (f *forest) opening(d *domain, b *body) (opening, bool) {
	k := b.Workers
	free := len(f.free(d))
	if len(d.inner) == 0 {
		var items []item
		for _, i := range f.owners(d) {
			if in := f.inside(i, d); f.mayLeave(i, k) {
				items = append(items, item{size: in, out: []int{i}, cost: f.bodies[i].cost()})
			}
		}
		out, cost, ok := cheapest(items, k-free)
		return opening{units: []*domain{d}, out: out, cost: cost, spare: free - k}, ok
	}
	parts := d.inner
	if d.node == "" {
		parts = nil
		for _, n := range f.nodes {
			if n.lo >= d.lo && n.hi <= d.hi && !b.away[n.node] {
				parts = append(parts, n)
			}
		}
	}
	size := 0
	for _, p := range parts {
		if p.usable <= k && p.usable > size && k%p.usable == 0 {
			size = p.usable
		}
	}
	if size == 0 {
		return opening{}, false
	}
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *domain) bool { return p.usable != size })
	items := f.clusters(parts, k)
	chosen, cost, ok := cheapestItems(items, k/size)
	o := opening{cost: cost, spare: free - k}
	for _, c := range chosen {
		o.units = append(o.units, items[c].parts...)
		o.out = append(o.out, items[c].out...)
	}
	slices.Sort(o.out)
	o.out = slices.Compact(o.out)
	return o, ok
}

// mayLeave reports whether a job may make room for one of k workers.
func (f *forest) mayLeave(i, k int) bool {
	b := &f.bodies[i]
	return b.Workers < k && len(b.slots) < k && b.movable()
}

// owners lists the jobs with slots in a domain.
func (f *forest) owners(d *domain) []int {
	var all []int
	for _, o := range f.owner[d.lo:d.hi] {
		if o >= 0 && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// inside is how many slots of a job a domain has.
func (f *forest) inside(i int, d *domain) int {
	n := 0
	for _, s := range f.bodies[i].slots {
		if s >= d.lo && s < d.hi {
			n++
		}
	}
	return n
}

// clusters are the parts that come free together: those that share a job. Parts with a job that
// may not make room for k workers are in none.
func (f *forest) clusters(parts []*domain, k int) []item {
	of := map[int]int{} // the item of a job
	var items []item
	for _, p := range parts {
		it := item{size: 1, parts: []*domain{p}}
		stuck := false
		for s := p.lo; s < p.hi; s++ {
			stuck = stuck || f.owner[s] >= 0 && !f.mayLeave(f.owner[s], k)
		}
		it.stuck = stuck
		for _, i := range f.owners(p) {
			other, seen := of[i]
			if seen && other == len(items) {
				continue // it shares two jobs with an earlier one
			}
			if seen { // the earlier one becomes a part of this
				o := items[other]
				items[other] = item{stuck: true}
				it.size, it.cost, it.stuck = it.size+o.size, it.cost+o.cost, it.stuck || o.stuck
				it.parts, it.out = append(it.parts, o.parts...), append(it.out, o.out...)
				for _, j := range o.out {
					of[j] = len(items)
				}
				continue
			}
			of[i] = len(items)
			it.out, it.cost = append(it.out, i), it.cost+f.bodies[i].cost()
		}
		items = append(items, it)
	}
	return slices.DeleteFunc(items, func(it item) bool { return it.stuck })
}

// item is what comes free for a cost.
type item struct {
	size  int
	cost  float64
	out   []int
	parts []*domain
	stuck bool
}

// cheapest lists the jobs of the cheapest items of at least so much size together.
func cheapest(items []item, need int) (out []int, cost float64, ok bool) {
	chosen, cost, ok := cheapestItems(items, need)
	for _, c := range chosen {
		out = append(out, items[c].out...)
	}
	return out, cost, ok
}

// cheapestItems chooses items of at least so much size together, for the least cost.
func cheapestItems(items []item, need int) (chosen []int, cost float64, ok bool) {
	if need <= 0 {
		return nil, 0, true
	}
	best := make([]float64, need+1) // by what is still needed
	for n := 1; n <= need; n++ {
		best[n] = math.Inf(1)
	}
	with := make([][]bool, len(items))
	for c, it := range items {
		with[c] = make([]bool, need+1)
		for n := need; n > 0; n-- {
			if v := best[max(0, n-it.size)] + it.cost; v < best[n] {
				best[n], with[c][n] = v, true
			}
		}
	}
	if math.IsInf(best[need], 1) {
		return nil, 0, false
	}
	for c, n := len(items)-1, need; c >= 0 && n > 0; c-- {
		if with[c][n] {
			chosen = append(chosen, c)
			n = max(0, n-items[c].size)
		}
	}
	slices.Reverse(chosen)
	return chosen, best[need], true
}
