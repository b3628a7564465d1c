package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
)

// ranked is what the schedulers of fixed sizes have in common: they put the jobs
// in an order, and a job runs with its one size or not at all.
//
// That size is the largest which the nodes that take the job could offer if
// no other job were there: who gives a job --min 1 --max 8 to such a scheduler
// asks for 8. A job that runs at another size, as another policy has left it, is
// brought to it like any other.
//
// At an interval's end the order decides anew who runs: what runs is halted
// where a job before it needs its devices (unless the scheduler is patient).
// A job that does not fit is passed over, and those behind it may run, so that
// devices are idle only if no waiting job fits (unless the scheduler is strict).
// Between two intervals the waiting jobs take what is idle in the same order.
type ranked struct {
	name string
	why  string // in a word or two, why a job runs before others
	// before compares two jobs: negative = x goes first. Equals keep the order
	// of the queue, those that run before those that wait.
	before  func(x, y allocator.JobView) int
	patient bool // what runs is never halted for another
	strict  bool // no job passes one that waits
}

// Name implements allocator.Policy.
func (r ranked) Name() string { return r.name }

// Allocate implements allocator.Policy.
func (r ranked) Allocate(in allocator.Input) allocator.Output {
	d := sit(in)
	if r.patient {
		d.sendBack()
	} else {
		d.clearMovable()
	}
	for _, i := range r.order(d) {
		if d.counts[i] > 0 || d.smallest(i) > d.about.Open(d.jobs[i]) {
			continue // it runs on, or never could: whom should it hold up
		}
		if d.set(i, d.whole(i)) {
			d.why[i] = r.why
		} else if r.strict {
			break
		}
	}
	out := d.answer()
	for i := range d.jobs {
		if d.counts[i] == 0 && d.smallest(i) <= d.about.Open(d.jobs[i]) {
			out.Decisions[i].Reason = fmt.Sprintf("waits for %d devices at once; %d of %d are left", d.whole(i), max(d.idle, 0), d.about.Usable())
		}
	}
	return out
}

func (r ranked) order(d *desk) []int {
	order := d.queue()
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Or(r.before(d.jobs[x], d.jobs[y]), compareBools(d.jobs[y].Workers > 0, d.jobs[x].Workers > 0))
	})
	return order
}

// compareBools puts false before true.
func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// whole is the largest of job i's sizes that its nodes could offer, else its smallest.
func (d *desk) whole(i int) int {
	open := d.about.Open(d.jobs[i])
	for _, k := range slices.Backward(d.jobs[i].Sizes) {
		if k <= open {
			return k
		}
	}
	return d.smallest(i)
}

// sendBack lets the latest jobs wait until what is in force fits, as after a loss of devices.
func (d *desk) sendBack() {
	for i := len(d.jobs) - 1; i >= 0 && !d.fits(); i-- {
		d.set(i, 0)
	}
}

// fixedSizes reports whether the policy gives a job one size or none.
func fixedSizes(p allocator.Policy) bool {
	_, ok := p.(ranked)
	return ok
}
