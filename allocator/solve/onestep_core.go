package solve

import (
	"math"
	"slices"
)

// Constants of the search for changes, as in core.go: a narrow one first.
const (
	narrowJobs  = 48
	wideJobs    = 600
	leastWindow = 64   // devices to both sides
	mostWindow  = 2048 // the same
)

// changes is the search among changes of the relaxation's solution. At its price a
// change loses something, or nothing, and an idle device loses its price: the sum
// is the gap between the result and the bound. The smallest is found by dynamic
// programming over jobs and devices, around the solution.
type changes struct {
	order  []ranked  // jobs, by the least that a change of theirs loses
	base   []uint8   // by job: the index of its count in the solution
	cost   []float64 // by devices more than the solution's, + window
	before []float64
	choice []uint8 // by job and window: 0 = unchanged, else 1 + the index of the count
	window int
}

// search improves the counts in s.at, which solve the relaxation and leave so
// many devices idle at the price. It returns the least gap between any counts and
// the bound.
func (d *changes) search(s *OneStepSolver, price float64, idle int) (gap float64) {
	d.base = append(d.base[:0], s.at...)
	gap = price * float64(idle)
	cut := gap
	for _, most := range [...]int{narrowJobs, wideJobs} {
		rest := d.gather(s, price, gap, most)
		beyond := d.combine(s, price, gap)
		cost, dev := gap, 0
		for x := range min(idle, d.window) + d.window + 1 {
			if c := d.cost[x] + price*float64(idle+d.window-x); c < cost {
				cost, dev = c, x-d.window
			}
		}
		if cost < gap {
			gap = cost
			d.assign(s, dev)
		}
		if cut = min(rest, beyond); cut >= gap {
			return gap
		}
	}
	return cut
}

// loss is what job i loses with option k instead of its count in the solution.
func (d *changes) loss(s *OneStepSolver, i, k int, price float64) float64 {
	values, b := s.p.Values[i], d.base[i]
	return max(0, values[b]-values[k]-price*float64(s.p.Counts[b]-s.p.Counts[k]))
}

// gather finds the jobs of which a change loses less than the limit, at most so
// many of them. It returns the least that a change of another job loses.
func (d *changes) gather(s *OneStepSolver, price, limit float64, most int) (rest float64) {
	d.order = d.order[:0]
	far := 0
	for i := range s.p.Values {
		less := math.Inf(1)
		for k := int(s.low[i]); k < len(s.p.Counts); k++ {
			if k == int(d.base[i]) {
				continue
			}
			if loss := d.loss(s, i, k, price); loss < limit {
				less = min(less, loss)
				more := s.p.Counts[k] - s.p.Counts[d.base[i]]
				far = max(far, more, -more)
			}
		}
		if less < limit {
			d.order = append(d.order, ranked{less, int32(i)})
		}
	}
	d.window = max(leastWindow, min(2*far, mostWindow))
	rest = math.Inf(1)
	if len(d.order) > most {
		least(d.order, most)
		for _, o := range d.order[most:] {
			rest = min(rest, o.lower)
		}
		d.order = d.order[:most]
	}
	return rest
}

// combine fills in the cost of each change of the number of devices. It returns
// the least that a change loses which leaves the window.
func (d *changes) combine(s *OneStepSolver, price, limit float64) (beyond float64) {
	width := 2*d.window + 1
	beyond = math.Inf(1)
	d.cost, d.before = resize(d.cost, width), resize(d.before, width)
	d.choice = resize(d.choice, len(d.order)*width)
	clear(d.choice)
	for x := range d.cost {
		d.cost[x] = math.Inf(1)
	}
	d.cost[d.window] = 0
	low, high := d.window, d.window // what has been reached
	for n, o := range d.order {
		i := int(o.at)
		copy(d.before, d.cost)
		choice := d.choice[n*width:][:width]
		from, to := low, high
		for k := int(s.low[i]); k < len(s.p.Counts); k++ {
			loss := d.loss(s, i, k, price)
			if k == int(d.base[i]) || !(loss < limit) {
				continue
			}
			more := s.p.Counts[k] - s.p.Counts[d.base[i]]
			for x := from; x <= to; x++ {
				at, v := x+more, d.before[x]+loss
				switch {
				case v >= limit:
				case at < 0 || at >= width:
					beyond = min(beyond, v)
				case v < d.cost[at]:
					d.cost[at], choice[at] = v, uint8(k+1)
					low, high = min(low, at), max(high, at)
				}
			}
		}
	}
	return beyond
}

// assign makes the changes that cost least for so many devices more.
func (d *changes) assign(s *OneStepSolver, dev int) {
	copy(s.at, d.base)
	width, x := 2*d.window+1, dev+d.window
	for n, o := range slices.Backward(d.order) {
		c := d.choice[n*width+x]
		if c == 0 {
			continue
		}
		i := int(o.at)
		s.at[i] = c - 1
		x -= s.p.Counts[c-1] - s.p.Counts[d.base[i]]
	}
}
