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
// That size is the largest that the nodes which can run the job could offer if no
// other job were there: for such a scheduler --min 1 --max 8 asks for 8. A job
// that runs at another size, chosen by another policy, is brought to it as well.
//
// At an interval's end the order decides again which jobs run: a running job is
// halted where one before it needs its devices (unless the scheduler is patient).
// A job that does not fit is skipped, and those behind it may run, so that
// devices are idle only if no waiting job fits (unless the scheduler is strict).
// Between two intervals the waiting jobs take what is idle in the same order.
type ranked struct {
	name string
	why  string // in a word or two, why a job runs before others
	// before compares two jobs: negative = x goes first. Equals keep the order
	// of the queue, those that run before those that wait.
	before  func(x, y allocator.JobView) int
	patient bool // a running job is never halted for another
	strict  bool // no job passes one that waits
	// timeless: before compares nothing that time or work changes.
	timeless bool
}

// Name implements allocator.Policy.
func (r ranked) Name() string { return r.name }

// Timeless implements allocator.Timeless.
func (r ranked) Timeless() bool { return r.timeless }

// promising is a ranked policy that keeps promises, planned with full sizes.
type promising struct{ ranked }

// PromiseSizes implements allocator.Promising.
func (promising) PromiseSizes(sizes []int) []int { return sizes[max(0, len(sizes)-1):] }

// Allocate implements allocator.Policy.
func (r ranked) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	if r.patient {
		d.requeueLatest()
	} else {
		d.clearMovable()
	}
	promised := r.order(d)
	for _, i := range promised {
		if n := d.jobs[i].Promise.Now(); n > 0 && d.counts[i] == 0 {
			d.set(i, n)
		}
	}
	d.served.note(d.jobs, d.counts, promised)
	for _, i := range r.order(d) {
		if d.counts[i] > 0 || d.smallest(i) > d.devices.UsableFor(d.jobs[i]) {
			continue // it runs, or never can: then it holds no other job up
		}
		if d.set(i, d.fullSizeFor(i)) {
			d.why[i] = r.why
		} else if r.strict {
			break
		}
	}
	out := d.answer()
	for i := range d.jobs {
		if d.counts[i] == 0 && d.smallest(i) <= d.devices.UsableFor(d.jobs[i]) && d.jobs[i].Promise == nil && d.served.reason(d.jobs, d.counts, i) == "" {
			out.Decisions[i].Reason = fmt.Sprintf("waits: needs %s at once, %d of %d are free", devices(d.fullSizeFor(i)), max(d.idle, 0), d.devices.Usable())
		}
	}
	return out
}

func (r ranked) order(d *draft) []int {
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
func (d *draft) fullSizeFor(i int) int {
	open := d.devices.UsableFor(d.jobs[i])
	for _, k := range slices.Backward(d.jobs[i].Sizes) {
		if k <= open {
			return k
		}
	}
	return d.smallest(i)
}

// requeueLatest takes the workers from the latest jobs until all fit, as after a loss of devices.
func (d *draft) requeueLatest() {
	for i := len(d.jobs) - 1; i >= 0 && !d.fits(); i-- {
		d.set(i, 0)
	}
}

// fixedSizes reports whether the policy gives a job one size or none.
func fixedSizes(p allocator.Policy) bool {
	switch p.(type) {
	case ranked, promising:
		return true
	}
	return false
}
