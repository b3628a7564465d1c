package elasticflow

import (
	"cmp"
	"slices"
)

// tiresias is its simulator's Tiresias-L: three queues, where a job begins in the
// first and moves to the next one by device time.
type tiresias struct {
	*terms
	arrivals events
	runnable []*job
	queues   [3][]*job
	ending   []*job // all that end at the next end
	endAt    int
	demotion int // when the next job changes its queue; 0 = none will
}

// limits are the device seconds at which a job leaves its queue.
var limits = [...]int{3250, 7200}

func newTiresias(t *terms, jobs []*job) *tiresias {
	x := &tiresias{terms: t}
	for _, j := range jobs {
		x.arrivals.at(j.submit).arrive(j)
	}
	return x
}

// decide implements decider.
func (x *tiresias) decide(now int) (int, bool, error) {
	if len(x.ending) > 0 && x.endAt == now {
		for _, j := range x.ending {
			same := func(o *job) bool { return o == j }
			x.runnable = slices.DeleteFunc(x.runnable, same)
			x.queues[j.list] = slices.DeleteFunc(x.queues[j.list], same)
			j.devices, j.leaves = 0, false
		}
	}
	if len(x.arrivals) > 0 && x.arrivals[0].time == now {
		for _, j := range x.arrivals[0].arrived {
			j.counted = j.submit
			x.runnable, x.queues[0] = append(x.runnable, j), append(x.queues[0], j)
		}
		x.arrivals = slices.Delete(x.arrivals, 0, 1)
	}
	for _, j := range x.runnable {
		x.count(j, now)
	}
	restart := x.restarts()
	x.choose(restart)
	x.forecast(now, restart)
	return x.following(now)
}

// count adds the time since the last decision, and demotes.
func (x *tiresias) count(j *job, now int) {
	span := now - j.counted
	j.counted = now
	if j.devices == 0 {
		return
	}
	j.executed += max(0, span-j.overhead)
	j.overhead = 0
	if j.list < len(limits) && j.executed*j.asked >= limits[j.list] {
		x.queues[j.list] = slices.DeleteFunc(x.queues[j.list], func(o *job) bool { return o == j })
		j.list++
		x.queues[j.list] = append(x.queues[j.list], j)
	}
}

// choose runs the queues in their order, each in its own; a job that does not fit
// is skipped, and moves to the end of its queue.
func (x *tiresias) choose(restart bool) {
	free := x.on.Devices()
	for q, queue := range x.queues {
		var running, waiting []*job
		for _, j := range queue {
			if free < j.asked {
				j.devices = 0
				waiting = append(waiting, j)
				continue
			}
			free -= j.asked
			if j.devices == 0 {
				j.overhead = x.startCost(j.asked, restart, false)
			}
			j.devices = j.asked
			running = append(running, j)
		}
		x.queues[q] = append(running, waiting...)
	}
	slices.SortStableFunc(x.runnable, func(a, b *job) int { return cmp.Compare(b.asked, a.asked) })
}

// forecast finds the next end and the next demotion.
func (x *tiresias) forecast(now int, restart bool) {
	x.ending, x.endAt, x.demotion = nil, 0, 0
	for _, j := range x.runnable {
		j.leaves = false
		if j.devices == 0 {
			continue
		}
		left := j.took - j.executed
		if restart {
			j.overhead = x.startCost(j.asked, restart, false)
			left += j.overhead
		}
		at := max(now+x.slot, now+left)
		if len(x.ending) == 0 || at < x.endAt {
			x.ending, x.endAt = nil, at
		}
		if at == x.endAt {
			x.ending = append(x.ending, j)
			j.end = now + left
		}
		if j.list < len(limits) {
			// Its simulator does not divide device time here, although it compares device time above.
			at := ceilSeconds(now, float64(limits[j.list]-j.executed)/float64(j.asked))
			if x.demotion == 0 || at < x.demotion {
				x.demotion = at
			}
		}
	}
}

// following is when the next decision is due.
func (x *tiresias) following(now int) (int, bool, error) {
	if x.demotion > 0 {
		x.demotion = max(x.demotion, now+x.slot)
	}
	next, more := x.arrivals.gather(now, x.slot)
	if len(x.ending) > 0 && (!more || x.endAt < next) {
		next, more = x.endAt, true
	}
	if more && x.demotion > 0 && next > x.demotion {
		next = x.demotion
	}
	if len(x.ending) > 0 && next == x.endAt {
		for _, j := range x.ending {
			j.leaves = true
		}
	}
	return next, more, nil
}
