package elasticflow

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
)

// filling is ElasticFlow: production's admission, progressive filling and spread of
// what is left, in the rounds of its simulator.
type filling struct {
	*terms
	arrivals events
	runnable []*job
	last     int
	places   places
}

func newFilling(t *terms, jobs []*job) *filling {
	x := &filling{terms: t, places: newPlaces(t.on)}
	for _, j := range jobs {
		x.arrivals.at(j.submit).arrive(j)
	}
	if len(jobs) > 0 {
		x.last = jobs[0].submit
	}
	return x
}

// decide implements decider.
func (x *filling) decide(now int) (int, bool, error) {
	for _, j := range x.runnable {
		x.count(j, now)
	}
	x.last = now
	x.runnable = slices.DeleteFunc(x.runnable, func(j *job) bool {
		if j.left > 0 {
			return false
		}
		j.devices, j.leaves = 0, false
		return true
	})
	plan, err := x.plan(now)
	if err != nil {
		return 0, false, err
	}
	if len(x.arrivals) > 0 && x.arrivals[0].time <= now {
		for _, j := range x.arrivals[0].arrived {
			next, ok := plan.Admit(x.ask(j, now))
			if j.refused = !ok; ok {
				plan = next
				x.runnable = append(x.runnable, j)
			}
		}
		x.arrivals = slices.Delete(x.arrivals, 0, 1)
	}
	byID := map[cluster.JobID]*job{}
	for _, j := range x.runnable {
		byID[id(j)] = j
	}
	for _, s := range plan.Spread() {
		byID[s.Job].devices = s.Devices
	}
	if err := x.charge(); err != nil {
		return 0, false, err
	}
	return x.following(now, plan)
}

func id(j *job) cluster.JobID { return cluster.JobID(strconv.Itoa(j.index)) }

// count adds what a job has done since the last decision.
func (x *filling) count(j *job, now int) {
	if j.devices == 0 {
		return
	}
	if now >= j.end {
		j.left = 0
		return
	}
	j.left -= float64(max(0, now-x.last-j.overhead)) * j.rate(j.devices)
	j.overhead = 0
}

// plan is production's plan for the jobs that were admitted.
func (x *filling) plan(now int) (*admit.Plan, error) {
	p := admit.Problem{Devices: x.on.Devices(), First: float64(x.slot), Slot: float64(x.slot)}
	for _, j := range x.runnable {
		p.Jobs = append(p.Jobs, x.ask(j, now))
	}
	return admit.New(p)
}

// ask is a job as production's admission gets it. One that is late already has no deadline any more.
func (x *filling) ask(j *job, now int) admit.Job {
	q := admit.Job{ID: id(j), Work: j.left / j.rates[0], Deadline: float64(j.deadline - now), Present: j.devices}
	if q.Deadline <= 0 {
		q.Deadline = math.Inf(1)
	}
	for k, r := range j.rates {
		if n := 1 << k; n <= j.most {
			q.Counts, q.Speeds = append(q.Counts, n), append(q.Speeds, r/j.rates[0])
			q.Pauses = append(q.Pauses, float64(x.startCost(n, false, false)))
		}
	}
	if j.devices > 0 {
		q.Owed = float64(x.startCost(j.devices, false, false))
	}
	return q
}

// charge subtracts what starts cost in the coming round: every running job loses time.
func (x *filling) charge() error {
	x.places.reset()
	order := slices.Clone(x.runnable)
	slices.SortStableFunc(order, func(a, b *job) int { return b.devices - a.devices })
	for _, j := range order {
		if j.devices > 0 && !x.places.place(j) {
			return fmt.Errorf("no place for %d devices of job %d", j.devices, j.index)
		}
	}
	x.places.remember()
	restart := x.restarts()
	if restart {
		clear(x.places.cache)
	}
	for _, j := range x.runnable {
		if j.overhead = 0; j.devices > 0 {
			j.overhead = x.startCost(j.devices, restart, j.cached)
		}
	}
	return nil
}

// following forecasts the ends, and returns when the next decision is due: where a job arrives,
// ends or changes its number in the plan, but at least a slot later.
func (x *filling) following(now int, plan *admit.Plan) (int, bool, error) {
	next := math.MaxInt
	if len(x.arrivals) > 0 {
		next = x.arrivals[0].time
	}
	for _, j := range x.runnable {
		if j.devices > 0 {
			j.end = ceilSeconds(now+j.overhead, j.left/j.rate(j.devices))
			next = min(next, j.end)
		}
	}
	for _, p := range plan.Profiles {
		if len(p) > 1 {
			next = min(next, now+p[1].From*x.slot)
		}
	}
	if next == math.MaxInt {
		return 0, false, nil
	}
	next = max(next, now+x.slot)
	for len(x.arrivals) > 1 && x.arrivals[1].time <= next {
		x.arrivals[0].arrived = append(x.arrivals[0].arrived, x.arrivals[1].arrived...)
		x.arrivals = slices.Delete(x.arrivals, 1, 2)
	}
	for _, j := range x.runnable {
		j.leaves = j.devices > 0 && j.end <= next
	}
	return next, true, nil
}
