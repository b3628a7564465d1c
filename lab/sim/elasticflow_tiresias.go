package sim

import (
	"cmp"
	"slices"
)

// elasticFlowTiresias is its simulator's Tiresias-L: three queues, everybody in
// the first at the beginning and put into the next one by device time.
type elasticFlowTiresias struct {
	*ElasticFlow
	arrivals elasticFlowEvents
	runnable []*elasticFlowJob
	queues   [3][]*elasticFlowJob
	ending   []*elasticFlowJob // all that end at the next end
	endAt    int
	jump     int // when somebody changes the queue; 0 = nobody will
}

// elasticFlowLimits are the device seconds at which a job leaves its queue.
var elasticFlowLimits = [...]int{3250, 7200}

func newElasticFlowTiresias(e *ElasticFlow) *elasticFlowTiresias {
	x := &elasticFlowTiresias{ElasticFlow: e}
	for _, j := range e.jobs {
		x.arrivals.at(j.submit).come(j)
	}
	return x
}

// decide implements elasticFlowPolicy.
func (x *elasticFlowTiresias) decide(now int) (int, bool, error) {
	if len(x.ending) > 0 && x.endAt == now {
		for _, j := range x.ending {
			isIt := func(o *elasticFlowJob) bool { return o == j }
			x.runnable = slices.DeleteFunc(x.runnable, isIt)
			x.queues[j.list] = slices.DeleteFunc(x.queues[j.list], isIt)
			j.devices, j.leaves = 0, false
		}
	}
	if len(x.arrivals) > 0 && x.arrivals[0].time == now {
		for _, j := range x.arrivals[0].came {
			j.checked = j.submit
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

// count takes in the time since the last decision, and demotes.
func (x *elasticFlowTiresias) count(j *elasticFlowJob, now int) {
	span := now - j.checked
	j.checked = now
	if j.devices == 0 {
		return
	}
	j.executed += max(0, span-j.overhead)
	j.overhead = 0
	if j.list < len(elasticFlowLimits) && j.executed*j.asked >= elasticFlowLimits[j.list] {
		x.queues[j.list] = slices.DeleteFunc(x.queues[j.list], func(o *elasticFlowJob) bool { return o == j })
		j.list++
		x.queues[j.list] = append(x.queues[j.list], j)
	}
}

// choose runs the queues in their order, each in its own; who does not fit is
// passed over, and goes to the end of its queue.
func (x *elasticFlowTiresias) choose(restart bool) {
	free := x.machines.devices()
	for q, queue := range x.queues {
		var running, waiting []*elasticFlowJob
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
	slices.SortStableFunc(x.runnable, func(a, b *elasticFlowJob) int { return cmp.Compare(b.asked, a.asked) })
}

// forecast finds the next end, and who is the next to be demoted.
func (x *elasticFlowTiresias) forecast(now int, restart bool) {
	x.ending, x.endAt, x.jump = nil, 0, 0
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
		if j.list < len(elasticFlowLimits) {
			// What its simulator divides is not device time, though what it compares above is.
			jump := ceilSeconds(now, float64(elasticFlowLimits[j.list]-j.executed)/float64(j.asked))
			if x.jump == 0 || jump < x.jump {
				x.jump = jump
			}
		}
	}
}

// following is when the next decision is due.
func (x *elasticFlowTiresias) following(now int) (int, bool, error) {
	if x.jump > 0 {
		x.jump = max(x.jump, now+x.slot)
	}
	next, more := x.arrivals.gather(now, x.slot)
	if len(x.ending) > 0 && (!more || x.endAt < next) {
		next, more = x.endAt, true
	}
	if more && x.jump > 0 && next > x.jump {
		next = x.jump
	}
	if len(x.ending) > 0 && next == x.endAt {
		for _, j := range x.ending {
			j.leaves = true
		}
	}
	return next, more, nil
}
