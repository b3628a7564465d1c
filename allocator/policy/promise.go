package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
)

// keepsPromises is embedded by policies that promise deadlines, planned with any of a job's
// sizes. Such a policy begins with clearMovable and keepPromises: what was promised comes
// first, and the policy's own objective divides the rest (ADR 51).
type keepsPromises struct{}

// PromiseSizes implements allocator.Promising: all of them.
func (keepsPromises) PromiseSizes(sizes []int) []int { return sizes }

// defaultSlot is the length of a slot where no interval is known.
const defaultSlot = 5 * time.Minute

// keepPromises gives each of the movable jobs what it was promised in the running
// slot, before any other has a device. From here on it has at least that, and of its
// sizes only those with which its deadline is kept still: its profile from the next
// slot on, all pauses counted. Without promises it changes nothing.
func (d *draft) keepPromises(movable []int) {
	var jobs []int
	for _, i := range movable {
		if d.jobs[i].Promise != nil {
			jobs = append(jobs, i)
		}
	}
	if len(jobs) == 0 {
		return
	}
	choices := map[cluster.JobID][]int{}
	if plan, err := admit.Follow(problem(d.in, d.devices, picked(d.jobs, jobs), d.idle)); err == nil {
		choices = maps.Collect(plan.Choices)
	}
	slices.SortStableFunc(jobs, func(x, y int) int { return compareDue(d.jobs[x], d.jobs[y]) })
	for _, i := range jobs { // what the record says, as the plan here may keep fewer: a job's end may have moved into its reserve
		d.upTo(i, d.jobs[i].Sizes, d.jobs[i].Promise.Now())
		d.states[i].least = d.counts[i]
	}
	for _, i := range jobs {
		c, kept := choices[d.jobs[i].ID]
		if !kept {
			continue // any more is good for it
		}
		if c[0] > d.counts[i] {
			d.upTo(i, d.jobs[i].Sizes, c[0])
			d.states[i].least = d.counts[i]
		}
		if c = from(c, d.counts[i]); len(c) == 0 {
			d.states[i].fixed = true // it waits for its slot
			continue
		}
		d.jobs[i] = only(d.jobs[i], c)
	}
	d.served.note(d.jobs, d.counts, jobs)
}

// from are the choices of a job that has so many workers already: no fewer.
func from(choices []int, have int) []int {
	choices = slices.DeleteFunc(choices, func(n int) bool { return n < max(1, have) })
	if have > 0 && !slices.Contains(choices, have) {
		choices = slices.Insert(choices, 0, have)
	}
	return choices
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

// problem is what is planned of these jobs of a question on so many devices.
func problem(in allocator.Input, usable allocator.Devices, jobs []allocator.JobView, devices int) admit.Problem {
	p := admit.Problem{Devices: max(0, devices), First: cmp.Or(in.Interval, defaultSlot).Seconds()}
	p.Slot = p.First
	for _, j := range jobs {
		t := admit.Terms{Now: in.Now, Work: duration(work(j))}
		for _, k := range j.Sizes {
			if k <= min(usable.UsableFor(j), p.Devices) {
				t.Sizes = append(t.Sizes, k)
			}
		}
		switch {
		case j.Promise != nil:
			p.First, p.Slot, t.Due = j.Promise.First.Seconds(), j.Promise.Slot.Seconds(), j.Promise.Due
		case j.Work.Known:
			t.Due = j.Deadline
		}
		if !t.Due.After(in.Now) {
			t.Due = time.Time{}
		}
		if q, ok := admit.Of(j, t); ok {
			p.Jobs = append(p.Jobs, q)
		}
	}
	return p
}

// only is the job with some of its sizes.
func only(j allocator.JobView, sizes []int) allocator.JobView {
	keep := make([]int, 0, len(sizes))
	for i, k := range j.Sizes {
		if slices.Contains(sizes, k) {
			keep = append(keep, i)
		}
	}
	if len(keep) == 0 || len(keep) == len(j.Sizes) {
		return j
	}
	j.Speeds, j.Careful, j.Batches, j.StartCosts = picked(j.Speeds, keep), picked(j.Careful, keep), picked(j.Batches, keep), picked(j.StartCosts, keep)
	j.Sizes, j.Fastest = picked(j.Sizes, keep), nil
	return j
}

// picked are the values at these places, as far as there are any.
func picked[T any](values []T, places []int) []T {
	var out []T
	for _, i := range places {
		if i < len(values) {
			out = append(out, values[i])
		}
	}
	return out
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
