package policy

import (
	"slices"

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
type elasticflow struct{ keepsPromises }

// Name implements allocator.Policy.
func (elasticflow) Name() string { return "elasticflow" }

func (elasticflow) leavesIdle() {}

func (elasticflow) movesAgain() {}

// Allocate implements allocator.Policy.
func (elasticflow) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	_, movable := d.clearMovable()
	byDue := slices.Clone(movable)
	slices.SortStableFunc(byDue, func(x, y int) int { return compareDue(d.jobs[x], d.jobs[y]) })
	shares := d.planned(movable)
	for _, i := range byDue {
		d.upTo(i, d.jobs[i].Sizes, d.jobs[i].Promise.Now())
		d.states[i].least = d.counts[i] // also where the plan here gives it less, as its end has moved into its reserve
	}
	d.served.note(d.jobs, d.counts, byDue)
	for _, i := range byDue {
		d.upTo(i, d.jobs[i].Sizes, shares[i])
	}
	d.startFitting(byDue) // where one size did not fit, a smaller may
	d.explain("by deadline, and what is left by marginal return")
	return d.answer()
}

// planned is how many workers each of the movable jobs gets by the plan.
func (d *draft) planned(movable []int) map[int]int {
	shares := map[int]int{}
	plan, err := admit.Follow(problem(d.in, d.devices, picked(d.jobs, movable), d.idle))
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
