package solve

import (
	"math"
	"slices"
)

// labels searches all combinations of near-best plans that can still be cheaper
// than the best choice known, one job after the other. Of two combinations that
// leave the same devices the cheaper one is kept. If there are more than the
// budget, the least promising are dropped, and the least that one of them loses
// bounds what they could have gained.
type labels struct {
	now, next   []label
	trail       []step // the last decision of each label
	slots       []int32
	lowerBounds lowerBounds
	order       []ranked
}

type label struct {
	loss  float64
	lower float64 // the least that any choice for the jobs to come loses, with this
	total float64 // with the cost of the decoupled jobs, if all jobs to come have their best plans
	spare [maxSteps]int16
	trail int32
}

// step is one decision on the way to a label.
type step struct {
	before int32
	choice uint8
}

// search goes through the items with at most budget labels, for a combination
// that costs less than lowest. It returns the cost of the cheapest found, whose
// choice it leaves in c.chosen, or lowest; and the least that any combination
// dropped costs.
func (l *labels) search(s *Solver, c *core, lowest float64, budget int) (best, cut float64) {
	l.lowerBounds.fill(s, c)
	first := label{trail: -1}
	for t, n := range s.spare() {
		first.spare[t] = int16(max(min(n, math.MaxInt16/2), math.MinInt16/2))
	}
	l.trail = l.trail[:0]
	winner, at := int32(-1), len(c.items)
	first.total = l.rest(s, &first)
	if first.total < lowest {
		lowest, winner = first.total, first.trail
		c.chosen = resize(c.chosen, len(c.items))
		clear(c.chosen)
	}
	l.now = append(l.now[:0], first)
	cut = math.Inf(1)
	for n := range slices.Backward(c.items) {
		l.expand(s, c, n, lowest)
		s.effort.Labels += len(l.next)
		for i := range l.next {
			if x := &l.next[i]; x.total < lowest-leastGain {
				lowest, winner, at = x.total, x.trail, n
			}
		}
		cut = min(cut, l.trim(lowest, budget))
	}
	if winner >= 0 {
		c.chosen = resize(c.chosen, len(c.items))
		clear(c.chosen)
		for n := at; n < len(c.items); n++ {
			c.chosen[n] = l.trail[winner].choice
			winner = l.trail[winner].before
		}
	}
	return lowest, cut
}

// leastGain is how much cheaper another combination has to be: less is rounding.
const leastGain = 1e-12

// rest is the total of a label if all jobs to come have their best plans.
func (l *labels) rest(s *Solver, x *label) float64 {
	total := x.loss
	for t := range s.p.Steps {
		total += s.decoupled.steps[t].at(int(x.spare[t]))
	}
	return total
}

// expand makes the next labels out of each label and each plan of item n.
func (l *labels) expand(s *Solver, c *core, n int, lowest float64) {
	alts := c.alts[c.items[n].from:c.items[n].to]
	l.next = l.next[:0]
	size := 64
	for size < 4*len(l.now) {
		size *= 2
	}
	l.slots = resize(l.slots, size)
	for i := range l.slots {
		l.slots[i] = -1
	}
	for i := range l.now {
		from := &l.now[i]
		for k := range alts {
			loss := from.loss + alts[k].loss
			if loss >= lowest {
				break // the plans are sorted by loss
			}
			x := label{loss: loss, spare: from.spare}
			for t := range s.p.Steps {
				x.spare[t] -= int16(alts[k].more[t])
			}
			x.lower = loss + l.lowerBounds.at(n, &x.spare)
			if x.lower < lowest {
				l.add(s, x, step{from.trail, uint8(k)})
			}
		}
	}
}

func hash(spare *[maxSteps]int16) uint64 {
	h := uint64(0)
	for _, v := range spare {
		h = (h ^ uint64(uint16(v))) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return h
}

// add keeps a label unless one that leaves the same devices loses no more.
func (l *labels) add(s *Solver, x label, how step) {
	mask := uint64(len(l.slots) - 1)
	h := hash(&x.spare) & mask
	for l.slots[h] >= 0 {
		y := &l.next[l.slots[h]]
		if y.spare == x.spare {
			if x.loss < y.loss {
				y.total += x.loss - y.loss
				y.lower = x.lower
				y.loss = x.loss
				l.trail[y.trail] = how
			}
			return
		}
		h = (h + 1) & mask
	}
	x.total = l.rest(s, &x)
	x.trail = int32(len(l.trail))
	l.trail = append(l.trail, how)
	l.slots[h] = int32(len(l.next))
	l.next = append(l.next, x)
	if 2*len(l.next) > len(l.slots) {
		l.grow()
	}
}

func (l *labels) grow() {
	size := 4 * len(l.slots)
	l.slots = resize(l.slots, size)
	for i := range l.slots {
		l.slots[i] = -1
	}
	mask := uint64(size - 1)
	for i := range l.next {
		h := hash(&l.next[i].spare) & mask
		for l.slots[h] >= 0 {
			h = (h + 1) & mask
		}
		l.slots[h] = int32(i)
	}
}

// trim keeps the labels that can still be cheaper, at most budget of them.
func (l *labels) trim(lowest float64, budget int) (cut float64) {
	cut = math.Inf(1)
	l.now = l.now[:0]
	for _, x := range l.next {
		if x.lower < lowest {
			l.now = append(l.now, x)
		}
	}
	if len(l.now) > budget {
		l.order = l.order[:0]
		for i := range l.now {
			l.order = append(l.order, ranked{l.now[i].lower, int32(i)})
		}
		least(l.order, budget)
		l.next = l.next[:0]
		for _, r := range l.order[:budget] {
			l.next = append(l.next, l.now[r.at])
		}
		for _, r := range l.order[budget:] {
			cut = min(cut, r.lower)
		}
		l.now, l.next = l.next, l.now
	}
	return cut
}

// ranked is a label's lower and its place.
type ranked struct {
	lower float64
	at    int32
}

func (r ranked) before(o ranked) bool {
	return r.lower < o.lower || r.lower == o.lower && r.at < o.at
}

// least brings the n least to the front (Hoare's selection).
func least(order []ranked, n int) {
	low, high := 0, len(order)-1
	for low < high {
		pivot := order[(low+high)/2]
		i, k := low, high
		for i <= k {
			for order[i].before(pivot) {
				i++
			}
			for pivot.before(order[k]) {
				k--
			}
			if i <= k {
				order[i], order[k] = order[k], order[i]
				i++
				k--
			}
		}
		switch {
		case n <= k:
			high = k
		case n >= i:
			low = i
		default:
			return
		}
	}
}
