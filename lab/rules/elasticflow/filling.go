package elasticflow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// filling is ElasticFlow as its simulator has it: admission, progressive filling by deadline,
// and the spread of what is left.
type filling struct {
	*terms
	events   events
	runnable []*job // admitted, and not ended
	last     int
	places   places
	free     []stretch // what the plan leaves
}

// share is what filling keeps of a job.
type share struct {
	fill
	// wider is the plan with the next larger number of devices now, and gain what that
	// adds to the job's device time, for each device.
	wider fill
	gain  float64
	due   int // the event at which it ends: when its slot does, and what its start costs later
}

func newFilling(t *terms, jobs []*job) *filling {
	x := &filling{terms: t, places: newPlaces(t.on)}
	for _, j := range jobs {
		j.share = &share{}
		x.events.at(j.submit).arrive(j)
	}
	if len(jobs) > 0 {
		x.last = jobs[0].submit
	}
	return x
}

// decide implements decider.
func (x *filling) decide(now int) (int, bool, error) {
	for _, j := range x.runnable {
		if x.done(j, now) {
			x.events.move(j, j.share.due, now)
		}
		j.left -= x.trained(j, now)
		j.overhead = 0
	}
	x.last = now
	ev := x.events[0]
	x.events = x.events[1:]
	for _, j := range ev.ended {
		// One that has no devices was to have ended by now, and waits on.
		if j.devices > 0 {
			j.devices, j.leaves = 0, false
			x.runnable = slices.DeleteFunc(x.runnable, func(o *job) bool { return o == j })
		}
	}
	if err := x.admit(ev.arrived, now); err != nil {
		return 0, false, err
	}
	if err := x.spread(now); err != nil {
		return 0, false, err
	}
	slices.SortStableFunc(x.runnable, func(a, b *job) int { return b.devices - a.devices })
	x.nextChange(now)
	if err := x.charge(); err != nil {
		return 0, false, err
	}
	next, more := x.events.gather(now, x.slot)
	if !more && len(x.runnable) > 0 {
		return 0, false, fmt.Errorf("job %d is planned to have no devices, for ever", x.runnable[0].index)
	}
	for _, j := range x.runnable {
		if j.leaves = more && j.devices > 0 && (slices.Contains(x.events[0].ended, j) || x.done(j, next)); j.leaves {
			j.end = min(j.end, next)
		}
	}
	return next, more, nil
}

// trained is what a job has done since the last decision. It trains until the end that was planned
// without its start, and loses what that costs at the beginning: where a decision comes between that end
// and the event of it, what is missing has to be done after all.
func (x *filling) trained(j *job, now int) float64 {
	if j.devices == 0 {
		return 0
	}
	span := now - x.last - max(0, now-j.end)
	return float64(max(0, span-j.overhead)) * j.rate(j.devices)
}

// done reports whether a job has ended before the event of its end, which for one that
// is late may be planned far too late.
func (x *filling) done(j *job, now int) bool {
	return j.devices > 0 && j.left <= x.trained(j, now) && j.share.due > now
}

// admit plans all jobs anew. Those that arrived are admitted together, if every job keeps
// its deadline beside them, also those that were admitted before.
func (x *filling) admit(arrived []*job, now int) error {
	kept := false
	if len(arrived) > 0 {
		var err error
		all := slices.Concat(x.runnable, arrived)
		if kept, err = x.plan(all, now); err != nil {
			return err
		}
		if kept {
			x.runnable = all
		}
		for _, j := range arrived {
			j.refused = !kept
		}
	}
	if !kept {
		if _, err := x.plan(x.runnable, now); err != nil {
			return err
		}
	}
	for _, j := range x.runnable {
		j.devices = at(j.share.given, now)
		x.adopt(j, j.share.fill)
	}
	return nil
}

// adopt makes a plan the job's.
func (x *filling) adopt(j *job, f fill) {
	j.share.fill, j.end = f, f.end
	x.events.move(j, j.share.due, f.slotEnd)
	j.share.due = f.slotEnd
	if !j.started && j.devices > 0 {
		j.started = true
		x.events.end(j, j.share.due)
	}
}

// plan fills the devices with all jobs by their deadlines, sorting them; false if one would miss its own.
func (x *filling) plan(jobs []*job, now int) (bool, error) {
	x.free = []stretch{{now, x.on.Devices()}}
	slices.SortStableFunc(jobs, func(a, b *job) int { return cmp.Compare(a.deadline, b.deadline) })
	kept := true
	for _, j := range jobs {
		f, err := x.fill(j, x.free, 0)
		if err != nil {
			return false, err
		}
		j.share.fill, x.free = f, f.left
		kept = kept && f.end <= j.deadline
	}
	return kept, nil
}

// spread gives out what the plan leaves now, a step at a time, to the job whose device time it raises
// most: the sign that its simulator has. Jobs that wait come first.
func (x *filling) spread(now int) error {
	idle := at(x.free, now)
	if idle == 0 {
		return nil
	}
	for _, j := range x.runnable {
		if err := x.widen(j, idle); err != nil {
			return err
		}
	}
	for {
		slices.SortStableFunc(x.runnable, func(a, b *job) int { return cmp.Compare(b.share.gain, a.share.gain) })
		i := slices.IndexFunc(x.runnable, func(j *job) bool {
			more := j.next() - j.devices
			return more > 0 && more <= idle
		})
		if i < 0 {
			return nil
		}
		j := x.runnable[i]
		idle -= j.next() - j.devices
		j.devices = j.next()
		x.free = j.share.wider.left
		x.adopt(j, j.share.wider)
		if at(x.free, now) != idle {
			return fmt.Errorf("with %d devices for job %d its plan leaves %d and not %d", j.devices, j.index, at(x.free, now), idle)
		}
		for _, j := range x.runnable {
			if j.next() == j.devices {
				continue // it keeps its gain, and with it its place among all
			}
			if err := x.widen(j, idle); err != nil {
				return err
			}
		}
	}
}

// next is the next larger number of devices that a job can have, or what it has.
func (j *job) next() int {
	switch {
	case j.devices == 0:
		return 1
	case 2*j.devices <= j.most:
		return 2 * j.devices
	}
	return j.devices
}

// widen plans a job with the next larger number of devices, in what all others leave.
func (x *filling) widen(j *job, idle int) error {
	more := j.next() - j.devices
	j.share.gain = math.Inf(-1)
	if more == 0 || more > idle {
		return nil
	}
	f, err := x.fill(j, x.without(j), j.next())
	if err != nil {
		return err
	}
	j.share.wider = f
	j.share.gain = float64(f.deviceTime()-j.share.deviceTime()) / float64(more)
	if j.devices == 0 {
		j.share.gain = math.Inf(1)
	}
	return nil
}

// without is what would be free if a job had no devices.
func (x *filling) without(j *job) []stretch {
	free := cut(slices.Clone(x.free), j.share.slotEnd)
	had := 0
	for _, g := range j.share.given {
		free = cut(free, g.at)
		for i, s := range free {
			if s.at >= g.at && s.at < j.share.slotEnd {
				free[i].devices += g.devices - had
			}
		}
		had = g.devices
	}
	return merged(free)
}

// nextChange has a decision made when the first job changes its number of devices, if none is due before.
func (x *filling) nextChange(now int) {
	first := math.MaxInt
	for _, j := range x.runnable {
		if g := j.share.given; len(g) > 1 {
			first = min(first, g[1].at)
		}
	}
	if first < math.MaxInt && !slices.ContainsFunc(x.events, func(e *event) bool { return e.time <= first }) {
		x.events.at(first)
	}
}

// charge subtracts what starts cost in the coming round: every running job loses time.
func (x *filling) charge() error {
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
	for _, j := range x.runnable {
		if j.overhead = 0; j.devices > 0 {
			j.overhead = x.startCost(j.devices, restart, j.cached)
			x.events.move(j, j.share.due, j.share.due+j.overhead)
			j.share.due += j.overhead
		}
	}
	return nil
}
