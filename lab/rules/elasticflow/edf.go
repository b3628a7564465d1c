package elasticflow

import (
	"cmp"
	"fmt"
	"slices"
)

// edf is its simulator's earliest deadline first, with and without admission.
type edf struct {
	*terms
	admission bool
	events    events
	runnable  []*job // all that arrived and have not ended
	running   []*job // those that have had devices, in the order of their first start
	waiting   []*job
	plan      []stretch
	last      int
	places    places
}

// stretch is a number of free devices from a moment on, until the next one's.
type stretch struct{ at, devices int }

func (f stretch) compare(at int) int { return cmp.Compare(f.at, at) }

func newEDF(t *terms, jobs []*job, admission bool) *edf {
	x := &edf{terms: t, admission: admission, places: newPlaces(t.on)}
	for _, j := range jobs {
		x.events.at(j.submit).arrive(j)
	}
	if len(jobs) > 0 {
		x.last = jobs[0].submit
	}
	return x
}

// decide implements decider.
func (x *edf) decide(now int) (int, bool, error) {
	for _, j := range x.runnable {
		x.count(j, now)
	}
	x.last = now
	ev := x.events[0]
	for _, j := range ev.ended {
		same := func(o *job) bool { return o == j }
		x.runnable, x.running = slices.DeleteFunc(x.runnable, same), slices.DeleteFunc(x.running, same)
		j.devices, j.leaves = 0, false
	}
	if x.admission {
		x.admit(ev, now)
	} else {
		x.replan(ev, now)
	}
	x.events = slices.DeleteFunc(x.events, func(o *event) bool { return o == ev })
	if err := x.charge(); err != nil {
		return 0, false, err
	}
	next, more := x.events.gather(now, x.slot)
	for _, j := range x.runnable {
		j.leaves = more && j.devices > 0 && slices.Contains(x.events[0].ended, j)
	}
	return next, more, nil
}

// count adds what a job has done since the last decision.
func (x *edf) count(j *job, now int) {
	if j.devices == 0 {
		return
	}
	span := now - x.last
	run := span
	if now > j.end {
		run -= now - j.end
	}
	run = max(0, run-j.overhead)
	done := float64(run) * j.rate(j.devices)
	if j.left <= done && j.end > now { // forecast by a rounding too late
		from := j.end
		done = float64(j.end-now+span) * j.rate(j.devices)
		j.end = now - span + ceilSeconds(0, j.left/j.rate(j.devices))
		x.events.move(j, from, now)
	}
	j.left -= done
	j.overhead = 0
}

// replan is what happens at an event without admission.
func (x *edf) replan(ev *event, now int) {
	if len(ev.arrived) > 0 {
		x.estimate(slices.Concat(x.runnable, ev.arrived), now)
		x.runnable, x.waiting = append(x.runnable, ev.arrived...), append(x.waiting, ev.arrived...)
	} else {
		x.estimate(x.runnable, now)
	}
	for _, j := range x.runnable {
		j.devices = j.planned
		x.forecast(j)
		if !j.started && j.devices > 0 {
			x.start(j)
		}
	}
}

// forecast adopts the planned end; for a job that has started it is an event.
func (x *edf) forecast(j *job) {
	if j.started {
		x.events.move(j, j.end, j.newEnd)
	}
	j.end = j.newEnd
}

// start gives a waiting job its first devices.
func (x *edf) start(j *job) {
	j.started = true
	x.waiting = slices.DeleteFunc(x.waiting, func(o *job) bool { return o == j })
	x.running = append(x.running, j)
	x.events.end(j, j.end)
}

// admit is what happens at an event with admission.
func (x *edf) admit(ev *event, now int) {
	admitted := false
	for _, j := range ev.arrived {
		if !x.estimate(append(slices.Clone(x.runnable), j), now) {
			j.refused = true
			continue
		}
		admitted = true
		x.runnable, x.waiting = append(x.runnable, j), append(x.waiting, j)
		for _, o := range x.running {
			o.devices = o.planned
			x.forecast(o)
		}
		for _, o := range slices.Clone(x.waiting) {
			o.devices, o.end = o.planned, o.newEnd
			if o.devices > 0 {
				x.start(o)
			}
		}
	}
	if admitted {
		return
	}
	x.estimate(x.runnable, now)
	for _, j := range x.runnable {
		if j.devices = j.planned; j.devices == 0 {
			continue
		}
		if !j.started {
			x.start(j)
		}
		x.forecast(j)
	}
}

// charge subtracts what starts cost in the coming round, where they are charged.
func (x *edf) charge() error {
	if !x.admission {
		return nil
	}
	x.places.reset()
	for _, j := range x.runnable {
		if j.devices > 0 && !x.places.place(j) {
			return fmt.Errorf("no place for %d devices of job %d", j.devices, j.index)
		}
	}
	x.places.remember()
	if len(x.events) == 0 {
		return nil
	}
	restart := x.restarts()
	if restart {
		clear(x.places.cache)
	}
	for _, j := range x.running {
		if j.overhead = 0; j.devices > 0 {
			j.overhead = x.startCost(j.devices, restart, j.cached)
			x.events.move(j, j.end, j.end+j.overhead)
			j.end += j.overhead
		}
	}
	return nil
}

// estimate plans all jobs by their deadlines, sorting them; false if one would miss its own.
func (x *edf) estimate(jobs []*job, now int) bool {
	x.plan = []stretch{{now, x.on.Devices()}}
	slices.SortStableFunc(jobs, func(a, b *job) int { return cmp.Compare(a.deadline, b.deadline) })
	kept := true
	for _, j := range jobs {
		kept = x.insert(j, now) && kept
	}
	return kept
}

// insert plans one job into the free devices: in each stretch as many as it may
// have, or the most that are left, until it ends. False if it ends too late.
func (x *edf) insert(j *job, start int) bool {
	all := x.on.Devices()
	quota := min(j.most, all)
	old, left, kept := x.plan, j.left, true
	plan := slices.Clone(old)
	j.planned = 0
	for i, from := range old {
		give, last := quota, i == len(old)-1
		switch {
		case last:
			plan[i].devices = all
		case from.devices == 0:
			give = 0
		case from.devices < quota:
			give = most(from.devices)
		}
		if i == 0 {
			j.planned = give
		}
		if give > 0 {
			end := ceilSeconds(from.at, left/j.rate(give))
			if last || end <= old[i+1].at {
				free := plan[i].devices
				plan[i].devices -= give
				j.newEnd = end
				_, exact := slices.BinarySearchFunc(old, end, stretch.compare)
				if last || !exact {
					plan = freeAgain(plan, stretch{x.aligned(start, end), free})
				}
				x.plan = slices.CompactFunc(plan, func(a, b stretch) bool { return a.devices == b.devices })
				return kept && end <= j.deadline
			}
			left -= float64(old[i+1].at-from.at) * j.rate(give)
			plan[i].devices -= give
		}
		kept = kept && old[i+1].at <= j.deadline
	}
	return kept
}

// freeAgain records that a job's devices are free again at the slot after its end,
// as many as before it, whatever the plan had for that slot.
func freeAgain(plan []stretch, then stretch) []stretch {
	i, found := slices.BinarySearchFunc(plan, then.at, stretch.compare)
	if found {
		plan[i] = then
		return plan
	}
	return slices.Insert(plan, i, then)
}

// most is the largest power of two that is not above n.
func most(n int) int {
	k := 1
	for 2*k <= n {
		k *= 2
	}
	return k
}
