package admit

import (
	"container/heap"
	"math"

	"github.com/bellows-ml/bellows/cluster"
)

// Share is how many devices a job has in the running slot.
type Share struct {
	Job     cluster.JobID
	Devices int
}

// Spread says who has which number of devices in the running slot: what the plan
// gives, and what it leaves.
//
// Of that, jobs that are in no plan have their least number first, in the order of
// the problem. Each further step goes to the job that saves the most device time
// by it, or loses the least, for each device (the marginal return): devices are
// left idle only where no job would be further by them at the slot's end, nor one that
// is in no plan end sooner. A job in the plan
// gets more only if its deadline is kept still, with the pauses of the change and of
// the way back to its profile.
func (pl *Plan) Spread() []Share {
	s := spread{plan: pl, filler: pl.filler(), idle: pl.problem.Devices}
	for i, e := range pl.jobs {
		s.add(e, pl.profiles[i])
	}
	for _, e := range pl.rest {
		s.add(e, nil)
	}
	for i := range s.jobs { // the least of those that are in no plan
		if j := &s.jobs[i]; j.profile == nil && j.devices == 0 && j.rungs[0].devices <= s.idle {
			j.devices = j.rungs[0].devices
			s.idle -= j.devices
		}
	}
	for i := range s.jobs {
		s.offer(i)
	}
	for len(s.raises) > 0 {
		r := heap.Pop(&s.raises).(raise)
		if j := &s.jobs[r.job]; r.to-j.devices <= s.idle {
			s.idle -= r.to - j.devices
			j.devices = r.to
		}
		s.offer(r.job)
	}
	out := make([]Share, len(s.jobs))
	for i, j := range s.jobs {
		out[i] = Share{j.ID, j.devices}
	}
	return out
}

// spread is the running slot in the making.
type spread struct {
	*filler
	plan   *Plan
	jobs   []shared
	idle   int
	raises raises
	trial  Profile
}

type shared struct {
	*entry
	profile Profile
	devices int
}

// raise is the next number of devices of a job, and what it saves for each of them.
type raise struct {
	job, to int
	saves   float64
}

type raises []raise

func (r raises) Len() int { return len(r) }
func (r raises) Less(i, k int) bool {
	return r[i].saves > r[k].saves || r[i].saves == r[k].saves && r[i].job < r[k].job
}
func (r raises) Swap(i, k int) { r[i], r[k] = r[k], r[i] }
func (r *raises) Push(x any)   { *r = append(*r, x.(raise)) }
func (r *raises) Pop() any {
	x := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return x
}

func (s *spread) add(e *entry, p Profile) {
	j := shared{entry: e, profile: p}
	if j.devices = p.At(0); p == nil && e.Kept {
		j.devices = e.Present
	}
	s.idle -= j.devices
	s.jobs = append(s.jobs, j)
}

// offer adds the raise of a job to the next number that would bring it further in the slot, if there is one.
func (s *spread) offer(i int) {
	j := &s.jobs[i]
	if j.Kept || j.profile == nil && j.devices == 0 {
		return
	}
	now, done, _ := s.cost(j, j.devices)
	for _, r := range j.rungs {
		if r.devices <= j.devices {
			continue
		}
		if r.devices-j.devices > s.idle {
			return
		}
		if then, more, ok := s.cost(j, r.devices); ok && (more > done || j.profile == nil && s.endsSooner(j, r)) {
			heap.Push(&s.raises, raise{i, r.devices, (now - then) / float64(r.devices-j.devices)})
			return
		}
	}
}

// endsSooner reports whether a job that is in no plan would end sooner with more devices for good, the
// pause of the change paid, which may be longer than the slot.
func (s *spread) endsSooner(j *shared, to rung) bool {
	now := j.rungAt(j.devices)
	if j.devices == 0 || !(now.speed > 0) {
		return false
	}
	pause := j.Owed
	if j.devices != j.Present {
		pause = now.pause
	}
	return to.pause+j.Work/to.speed < pause+j.Work/now.speed
}

// rungAt is what the job does with a number of devices that it has or could have; zero if none.
func (e *entry) rungAt(devices int) rung {
	if devices == e.Present {
		return e.present
	}
	for _, r := range e.rungs {
		if r.devices == devices {
			return r
		}
	}
	return rung{}
}

// cost is the device time that a job takes if it has so many devices in the running
// slot, the work that it could do there, and whether its deadline is kept.
func (s *spread) cost(j *shared, devices int) (deviceTime, done float64, ok bool) {
	g := j.begin()
	r := j.rungAt(devices)
	pause := g.lost
	if devices != j.Present {
		pause = r.pause
	}
	done = r.speed * math.Max(0, s.First-pause)
	if lasts, over := g.run(r, s.First); over && lasts <= j.Deadline {
		return float64(devices) * lasts, done, true
	}
	if j.profile == nil { // it goes on like this
		return float64(devices) * (s.First + g.lost + g.left/math.Max(r.speed, math.SmallestNonzeroFloat64)), done, true
	}
	s.trial = append(s.trial[:0], Run{Devices: devices})
	for i, x := range j.profile {
		if next := i + 1; next < len(j.profile) && j.profile[next].From <= 1 {
			continue
		}
		s.trial = append(s.trial, Run{From: max(1, x.From), Devices: x.Devices})
	}
	deviceTime, ok = s.keeps(j.entry, s.trial)
	return deviceTime, done, ok
}
