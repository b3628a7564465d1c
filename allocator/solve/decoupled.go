package solve

import (
	"cmp"
	"math"
	"slices"
)

// The window and the size of the small knapsacks: how many devices a combination
// of the other jobs can still lack or leave after a good search, and more than
// enough jobs to make up for it.
const (
	window         = 96  // devices to both sides of what the best plans need
	decoupledItems = 160 // jobs a step, those that lose least by a change
)

// decoupled has, for each step by itself, the cost of the unfinished jobs (those
// that cannot finish, or that no good plan finishes) together using so many
// devices more or fewer than their best plans: the least that they lose, by
// dynamic programming over jobs and devices.
type decoupled struct {
	steps [maxSteps]decoupledStep
}

type decoupledStep struct {
	items  []decoupledItem
	loss   [2*window + 1]float64 // by devices more than the best plans', + window: what jobs lose
	cost   [2*window + 1]float64 // by devices that may be used more: with the price of those left idle
	choice []uint8               // by item and window: 0 = its best option, else 1 + the option
	price  float64
	lowest int // the first index of cost that is reachable
}

type decoupledItem struct {
	job  int
	best int // its best option
	less float64
	loss [maxCounts]float64 // by option: against the best
}

// forbidden is the cost of a device too many: more than the value of any plan.
const forbidden = 1e6

// fill makes the tables at the prices. It returns the least that any plan omitted
// from them loses.
func (r *decoupled) fill(s *Solver) (cut float64) {
	cut = math.Inf(1)
	for t := range s.p.Steps {
		q := &r.steps[t]
		q.price = s.lambda[t]
		q.items = q.items[:0]
		for i := range s.jobs {
			if s.unfinished[i] {
				q.items = append(q.items, s.decoupledItem(i, t))
			}
		}
		slices.SortFunc(q.items, func(x, y decoupledItem) int { return cmp.Or(cmp.Compare(x.less, y.less), x.job-y.job) })
		if len(q.items) > decoupledItems {
			cut = min(cut, q.items[decoupledItems].less)
			q.items = q.items[:decoupledItems]
		}
		cut = min(cut, q.combine(s))
	}
	return cut
}

func (s *Solver) decoupledItem(i, t int) decoupledItem {
	j := &s.jobs[i]
	x := decoupledItem{job: i, less: math.Inf(1)}
	top := math.Inf(-1)
	for k := range j.speeds {
		x.loss[k] = j.gain(t, k, s.p.Steps) - s.prices.cost[t*maxCounts+j.low+k]
		if x.loss[k] > top {
			top, x.best = x.loss[k], k
		}
	}
	s.best[i][t] = uint8(x.best)
	for k := range j.speeds {
		x.loss[k] = top - x.loss[k]
		if k != x.best {
			x.less = min(x.less, x.loss[k])
		}
	}
	return x
}

// combine runs the dynamic programme of one step.
func (q *decoupledStep) combine(s *Solver) (cut float64) {
	const width = 2*window + 1
	cut = math.Inf(1)
	q.choice = resize(q.choice, len(q.items)*width)
	clear(q.choice)
	for x := range q.loss {
		q.loss[x] = math.Inf(1)
	}
	q.loss[window] = 0
	low, high := window, window // what has been reached
	var before [width]float64
	for n := range q.items {
		item := &q.items[n]
		j := &s.jobs[item.job]
		before = q.loss
		choice := q.choice[n*width:][:width]
		from, to := low, high
		for k := range j.speeds {
			if k == item.best {
				continue
			}
			more, loss := s.p.Counts[j.low+k]-s.p.Counts[j.low+item.best], item.loss[k]
			for x := from; x <= to; x++ {
				at, v := x+more, before[x]+loss
				if at < 0 || at >= width {
					cut = min(cut, v)
				} else if v < q.loss[at] {
					q.loss[at], choice[at] = v, uint8(k+1)
					low, high = min(low, at), max(high, at)
				}
			}
		}
	}
	best := math.Inf(1)
	q.lowest = low
	for x := range q.cost {
		best = min(q.loss[x], best+q.price)
		q.cost[x] = best
	}
	for x := range low {
		q.cost[x] = forbidden * float64(1+low-x)
	}
	return cut
}

// at is the cost when the unfinished jobs may use so many devices more than their best plans do.
func (q *decoupledStep) at(spare int) float64 {
	x := spare + window
	switch {
	case x < 0:
		return forbidden * float64(1+q.lowest-x)
	case x >= len(q.cost):
		return q.cost[len(q.cost)-1] + q.price*float64(x-len(q.cost)+1)
	}
	return q.cost[x]
}

// assign changes the plans of the unfinished jobs in step t to the cheapest with so
// many spare devices. Where none of them needs so few, all have their best: that
// plan exceeds the devices, and adopt refuses it.
func (q *decoupledStep) assign(s *Solver, t, spare int) {
	const width = 2*window + 1
	x := max(0, min(spare+window, width-1))
	for x > 0 && q.loss[x] > q.cost[x] {
		x--
	}
	for n := len(q.items) - 1; n >= 0; n-- {
		item := &q.items[n]
		c := q.choice[n*width+x]
		if c == 0 {
			continue
		}
		j := &s.jobs[item.job]
		s.best[item.job][t] = c - 1
		x -= s.p.Counts[j.low+int(c-1)] - s.p.Counts[j.low+item.best]
	}
}
