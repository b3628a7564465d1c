package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/admit"
)

// elasticflow keeps deadlines (Gu et al., ASPLOS 2023): every job that was promised
// its own has in each slot of time what the promise says. Other jobs with a deadline
// that can be kept beside those get the least that keeps it, the earliest deadline
// first. What is left goes to all by marginal return; see package admit, which
// plans, and docs/policies.md.
//
// Between two intervals waiting jobs start on what is idle: those that were promised
// it, then the others by deadline.
type elasticflow struct{}

// Name implements allocator.Policy.
func (elasticflow) Name() string { return "elasticflow" }

// PromiseSizes implements allocator.Promising: all of them.
func (elasticflow) PromiseSizes(sizes []int) []int { return sizes }

func (elasticflow) leavesIdle() {}

func (elasticflow) movesAgain() {}

// defaultSlot is the length of a slot where no interval is known.
const defaultSlot = 5 * time.Minute

// Allocate implements allocator.Policy.
func (elasticflow) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	_, movable := d.clearMovable()
	byDue := slices.Clone(movable)
	slices.SortStableFunc(byDue, func(x, y int) int { return compareDue(d.jobs[x], d.jobs[y]) })
	shares := d.planned(movable)
	d.promisedFirst(byDue)
	for _, i := range byDue {
		d.upTo(i, d.jobs[i].Sizes, shares[i])
	}
	d.startFitting(byDue) // where one size did not fit, a smaller may
	d.explain("by deadline, and what is left by marginal return")
	return d.answer()
}

// compareDue puts promised jobs first, then those with a deadline, each by that.
func compareDue(x, y allocator.JobView) int {
	due := func(j allocator.JobView) (class int, at time.Time) {
		switch {
		case j.Promise != nil:
			return 0, j.Promise.Due
		case !j.Deadline.IsZero():
			return 1, j.Deadline
		}
		return 2, time.Time{}
	}
	classX, dueX := due(x)
	classY, dueY := due(y)
	return cmp.Or(cmp.Compare(classX, classY), dueX.Compare(dueY))
}

// promisedFirst gives each job what it was promised in the running slot, before any
// other has a device.
func (d *draft) promisedFirst(order []int) {
	for _, i := range order {
		d.upTo(i, d.jobs[i].Sizes, d.jobs[i].Promise.Now())
	}
}

// planned is how many workers each of the movable jobs gets by the plan.
func (d *draft) planned(movable []int) map[int]int {
	p := admit.Problem{Devices: max(0, d.idle), First: cmp.Or(d.in.Interval, defaultSlot).Seconds()}
	p.Slot = p.First
	for _, i := range movable {
		j := d.jobs[i]
		t := admit.Terms{Now: d.in.Now, Work: duration(work(j))}
		for _, k := range j.Sizes {
			if k <= min(d.devices.UsableFor(j), p.Devices) {
				t.Sizes = append(t.Sizes, k)
			}
		}
		switch {
		case j.Promise != nil:
			p.First, p.Slot, t.Due = j.Promise.First.Seconds(), j.Promise.Slot.Seconds(), j.Promise.Due
		case j.Work.Known:
			t.Due = j.Deadline
		}
		if !t.Due.After(d.in.Now) {
			t.Due = time.Time{}
		}
		if q, ok := admit.Of(j, t); ok {
			p.Jobs = append(p.Jobs, q)
		}
	}
	shares := map[int]int{}
	plan, err := admit.Follow(p)
	if err != nil {
		return shares // a deadline out of reach of counting: the least sizes are given anyway
	}
	index := map[string]int{}
	for _, i := range movable {
		index[string(d.jobs[i].ID)] = i
	}
	for _, s := range plan.Spread() {
		shares[index[string(s.Job)]] = s.Devices
	}
	return shares
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
