package policy

import (
	"slices"

	"github.com/bellows-ml/bellows/allocator"
)

// share divides the devices equally, in powers of two. Each job first gets its
// smallest size, jobs of higher priority and then earlier ones first; what is
// left doubles the smallest shares, again in that order, the highest priority
// up to its jobs' largest sizes before the next. So among jobs of one priority
// no share is less than half of another, unless a job's own sizes or a pinned
// neighbour forbid more. A job whose smallest size does not fit waits, without
// holding up those behind it.
//
// The answer depends on what is present only where devices are bound (pinned
// jobs, cordoned nodes), so every arrival and end can move shares. Between two
// intervals the waiting jobs share what is idle in the same way.
type share struct{ keepsPromises }

// Name implements allocator.Policy.
func (share) Name() string { return "share" }

// Timeless implements allocator.Timeless.
func (share) Timeless() bool { return true }

// Allocate implements allocator.Policy.
func (share) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	order := d.byPriority()
	for _, i := range order {
		d.set(i, 0)
	}
	d.keepPromises(order)
	d.startFitting(order)
	var movable []int
	for _, i := range order {
		if d.counts[i] > 0 && !d.states[i].fixed {
			movable = append(movable, i)
		}
	}
	for len(movable) > 0 {
		n := 1
		for n < len(movable) && d.jobs[movable[n]].Priority == d.jobs[movable[0]].Priority {
			n++
		}
		d.fillEqually(movable[:n])
		movable = movable[n:]
	}
	d.startFitting(order)
	for i, j := range d.jobs {
		switch {
		case j.Workers == 0:
			d.why[i] = "gets its share"
		case d.counts[i] > j.Workers:
			d.why[i] = "its share has grown"
		case d.counts[i] < j.Workers:
			d.why[i] = "its share has shrunk"
		}
	}
	return d.answer()
}

// byPriority is the queue order with higher priorities first.
func (d *draft) byPriority() []int {
	order := make([]int, len(d.jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return d.jobs[y].Priority - d.jobs[x].Priority })
	return order
}

// startFitting gives each waiting job its smallest size where that fits, in this order.
func (d *draft) startFitting(order []int) {
	for _, i := range order {
		if d.waiting(i) {
			d.set(i, d.smallest(i))
		}
	}
}

// fillEqually raises the jobs size by size, always the one with the fewest
// workers, the first among equals, until no more fits.
func (d *draft) fillEqually(jobs []int) {
	open := slices.Clone(jobs)
	for len(open) > 0 && d.idle > 0 {
		least := 0
		for k, i := range open {
			if d.counts[i] < d.counts[open[least]] {
				least = k
			}
		}
		if !d.step(open[least]) {
			open = slices.Delete(open, least, least+1)
		}
	}
}
