package policy

import "github.com/bellows-ml/bellows/allocator"

// optimus gives each job its smallest size, and every further device to the job
// whose remaining time that shortens most (Peng et al., "Optimus", EuroSys 2018,
// section 4.1). Where the source estimates remaining work from the loss curve,
// this takes what is known of it; speeds are those measured, or the default
// model. Sizes go up in powers of two, so a gain is that of the next size,
// divided by the devices it takes.
//
// With more jobs than devices those that run and then the earliest have their
// smallest size, and the others wait. Decided anew at each interval: nothing in
// the rule prefers what is in force.
type optimus struct{ keepsPromises }

// Name implements allocator.Policy.
func (optimus) Name() string { return "optimus" }

func (optimus) leavesIdle() {}

// Allocate implements allocator.Policy.
func (optimus) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	_, movable := d.clearMovable()
	d.keepPromises(movable)
	for _, runs := range []bool{true, false} {
		for _, i := range movable {
			if d.waiting(i) && (d.jobs[i].Workers > 0) == runs {
				d.set(i, d.smallest(i))
			}
		}
	}
	d.distribute(d.running(movable), func(i, from, to int) float64 {
		j := d.jobs[i]
		return work(j)/speedAt(j, from) - work(j)/speedAt(j, to)
	})
	d.explain("shortens its remaining time most")
	return d.answer()
}

// running are those of the jobs that have workers.
func (d *draft) running(jobs []int) []int {
	var list []int
	for _, i := range jobs {
		if d.counts[i] > 0 {
			list = append(list, i)
		}
	}
	return list
}

// explain gives all changes the same reason.
func (d *draft) explain(why string) {
	for i, j := range d.jobs {
		if d.counts[i] != j.Workers {
			d.why[i] = why
		}
	}
}
