package elasticflow

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/bellows-ml/bellows/lab/trace"
)

// fill is one job in the plan.
type fill struct {
	given   []stretch // its devices, from a moment on; the last stretch counts until slotEnd
	left    []stretch // what it leaves of what was free
	end     int       // when it ends, if its start costs nothing
	slotEnd int       // when the slot ends in which it does
}

// deviceTime is the seconds of devices that are counted for the plan.
func (f *fill) deviceTime() int {
	sum, last := 0, f.given[0]
	for _, g := range f.given[1:] {
		sum += last.devices * (g.at - last.at)
		last = g
	}
	return sum + last.devices*(f.slotEnd-last.at)
}

// bertOnT4 is how many devices a job of bert has at most on T4s: there its simulator's table is lower than its speeds suggest.
const bertOnT4 = 16

// useful is how many devices filling lets a job have: as long as each step up is faster.
func (in Setup) useful(a trace.Arrival, j *job) int {
	n := 1
	for 2*n <= j.most && j.rate(2*n) > j.rate(n) {
		n *= 2
	}
	onT4 := func(k trace.Key) bool {
		return k.Device == "T4" && k.Model == a.Model && k.BatchSize == a.BatchSize && (in.Device == "" || in.Device == k.Device)
	}
	if a.Model == "bert" && slices.ContainsFunc(in.Profile.Keys(), onT4) {
		n = min(n, bertOnT4)
	}
	return n
}

// filler plans one job. Slots count from the moment of the plan, so that those of two plans need not
// be the same; the slot of its deadline counts up to the deadline.
type filler struct {
	fill
	*terms
	job   *job
	start int       // of the plan
	from  int       // what comes before is decided
	due   int       // the end of the slot of the deadline
	work  float64   // steps to plan
	was   []stretch // what was free before this job
	stale int       // what its simulator takes to have been free at a moment that it does not look up
}

// fill plans a job in what is free: with a number of devices until that changes, if first is not 0, and from
// then on with as few as keep its deadline; if none do, with as many as there are.
func (x *filling) fill(j *job, free []stretch, first int) (fill, error) {
	now := free[0].at
	if j.left <= 0 {
		return fill{}, fmt.Errorf("job %d has no steps left and has not ended", j.index)
	}
	f := &filler{terms: x.terms, job: j, start: now, from: now, due: x.aligned(now, j.deadline), work: j.left, was: free}
	f.left, f.given = slices.Clone(free), []stretch{{now, 0}}
	if f.due >= now {
		f.left, f.stale = cut(f.left, f.due), at(free, f.due-1)
	}
	switch {
	case first > 0 && f.hold(first):
	case f.work <= 0:
		return fill{}, fmt.Errorf("job %d misses its deadline with %d devices, and is done before that changes: its simulator stops there", j.index, first)
	case f.satisfy(), f.late():
	default:
		f.last(first)
	}
	return f.checked()
}

// checked merges stretches that are alike, and returns an error if the plan gives more than there was.
func (f *filler) checked() (fill, error) {
	f.given, f.left = merged(f.given), merged(f.left)
	for _, s := range f.left {
		if s.devices < 0 || s.devices > f.on.Devices() {
			return fill{}, fmt.Errorf("job %d: its plan leaves %d of %d devices at %d s", f.job.index, s.devices, f.on.Devices(), s.at)
		}
	}
	return f.fill, nil
}

// hold gives the job a number of devices until what is free changes; true if it ends before, in time.
func (f *filler) hold(devices int) bool {
	next := f.due
	if len(f.was) > 1 {
		next = f.was[1].at
	}
	f.given = put(f.given, f.start, devices)
	free := f.was[0].devices
	end := ceilSeconds(f.start, f.work/f.job.rate(devices))
	if slotEnd := f.aligned(f.start, end); next >= slotEnd && f.job.deadline >= end {
		f.left = put(f.left, f.start, free-devices)
		f.ends(end, slotEnd, free)
		return true
	}
	f.work -= float64(f.span(f.start, next)) * f.job.rate(devices)
	f.left = put(f.left, f.start, free-devices)
	f.from = next
	f.given = put(f.given, next, 0)
	return false
}

// ends records the job's end, after which so many devices are free as were before it.
func (f *filler) ends(end, slotEnd, free int) {
	f.end, f.slotEnd = end, slotEnd
	if _, found := find(f.was, slotEnd); !found {
		f.left = put(f.left, slotEnd, free)
	}
}

// span is how long a stretch is: the one that ends with the deadline's slot counts up to the deadline.
func (f *filler) span(from, to int) int {
	if to == f.due {
		to = f.job.deadline
	}
	return to - from
}

// satisfy finds the job's minimum satisfactory share: the least level at which it keeps its deadline, from as
// late a stretch on as possible; before that one it has the next lower level. If there is none, it plans
// the highest level up to the deadline and is false.
func (f *filler) satisfy() bool {
	for _, s := range f.left {
		if _, found := find(f.given, s.at); !found && s.at < f.due {
			f.given = put(f.given, s.at, 0)
		}
	}
	level := 1
	for ; ; level *= 2 {
		if since, ok := f.suffices(level); ok {
			return f.take(level, since)
		}
		if 2*level > min(f.job.most, f.on.Devices()) {
			break
		}
	}
	return f.take(level, f.start)
}

// suffices reports whether a level keeps the deadline, and from which stretch on it has to be given.
func (f *filler) suffices(level int) (since int, ok bool) {
	work, end := 0.0, f.due
	for _, s := range slices.Backward(f.left) {
		if s.at >= f.due {
			continue
		}
		if s.at < f.from {
			break
		}
		if n := f.most(s, level); n > 0 {
			if work += float64(f.span(s.at, end)) * f.job.rate(n); work >= f.work {
				return s.at, true
			}
		}
		end = s.at
	}
	return 0, false
}

// most is how many devices a job can have of those that are free, up to a level.
func (f *filler) most(s stretch, level int) int {
	if s.devices <= 0 {
		return 0
	}
	return min(level, 1<<(bits.Len(uint(s.devices))-1))
}

// take gives the job a level from a moment on, and before it the next lower one, up to the deadline; true if it ends.
func (f *filler) take(level, since int) bool {
	last := -1
	for i, s := range f.left {
		if s.at < f.from {
			continue
		}
		if s.at > f.due {
			break
		}
		if last >= 0 && f.takeOne(last, s.at, f.levelAt(last, level, since)) {
			return true
		}
		last = i
	}
	return false
}

func (f *filler) levelAt(i, level, since int) int {
	if f.left[i].at < since {
		level /= 2
	}
	return f.most(f.left[i], level)
}

// takeOne gives the job devices in one stretch; true if it ends there.
func (f *filler) takeOne(i, until, devices int) bool {
	from := f.left[i].at
	f.given = put(f.given, from, devices)
	f.left[i].devices -= devices
	if devices == 0 {
		return false
	}
	if done := float64(f.span(from, until)) * f.job.rate(devices); done < f.work {
		f.work -= done
		return false
	}
	seconds := ceilSeconds(0, f.work/f.job.rate(devices))
	slotEnd := from + f.aligned(0, seconds)
	f.ends(from+seconds, slotEnd, at(f.was, slotEnd-1))
	return true
}

// late plans what is not done at the deadline, with as many devices as are free then; true if it ends while others are planned.
func (f *filler) late() bool {
	from := max(f.due, f.from)
	for _, s := range slices.Clone(f.left) {
		if s.at <= f.due {
			continue
		}
		n := f.most(stretch{devices: at(f.left, from)}, f.job.most)
		f.given = put(f.given, from, n)
		if n > 0 {
			done := float64(s.at-from) * f.job.rate(n)
			if done >= f.work {
				f.lateEnd(from, n)
				return true
			}
			f.work -= done
			for _, w := range f.was {
				if w.at < from {
					f.stale = at(f.left, w.at)
				}
			}
			for i, l := range f.left {
				if l.at >= from && l.at < s.at {
					f.left[i].devices -= n
				}
			}
		}
		from = s.at
	}
	f.from = from
	return false
}

// lateEnd has the job end after its deadline, between two changes of others.
func (f *filler) lateEnd(from, devices int) {
	end := ceilSeconds(from, f.work/f.job.rate(devices))
	slotEnd := f.aligned(f.start, end)
	for i, s := range f.left {
		if s.at < f.due || s.at >= slotEnd {
			continue
		}
		if k, found := find(f.was, s.at); found {
			f.stale = f.was[k].devices
		}
		if s.at >= from {
			f.left[i].devices -= devices
		}
	}
	f.left = put(f.left, from, f.stale-devices)
	f.ends(end, slotEnd, f.stale)
}

// last has the job end when nothing else is planned any more.
func (f *filler) last(devices int) {
	all := f.on.Devices()
	if devices == 0 {
		devices = min(all, f.job.most)
	}
	f.given = put(f.given, f.from, devices)
	f.left = put(f.left, f.from, all-devices)
	f.end = ceilSeconds(f.from, f.work/f.job.rate(devices))
	f.slotEnd = f.aligned(f.start, f.end)
	f.left = put(f.left, f.slotEnd, all)
}

// find looks a moment up among stretches.
func find(all []stretch, moment int) (int, bool) {
	return slices.BinarySearchFunc(all, moment, stretch.compare)
}

// at is how many devices there are at a moment.
func at(all []stretch, moment int) int {
	i, found := find(all, moment)
	if !found {
		i--
	}
	return all[max(0, i)].devices
}

// put has a stretch begin at a moment.
func put(all []stretch, moment, devices int) []stretch {
	i, found := find(all, moment)
	if found {
		all[i].devices = devices
		return all
	}
	return slices.Insert(all, i, stretch{moment, devices})
}

// cut divides the stretch that a moment lies in.
func cut(all []stretch, moment int) []stretch { return put(all, moment, at(all, moment)) }

// merged joins stretches of as many devices.
func merged(all []stretch) []stretch {
	return slices.CompactFunc(all, func(a, b stretch) bool { return a.devices == b.devices })
}
