package admit

import (
	"math"
	"slices"
)

// shape is the most that a profile may have: one level before a slot, and another
// from it on. Level -1 is nothing.
type shape struct{ before, at, after int }

func level(k int) shape { return shape{after: k} }

// on is the level in a slot, and where it may change next.
func (s shape) on(slot int) (level, until int) {
	if slot < s.at {
		return s.before, s.at
	}
	return s.after, math.MaxInt
}

// filler fills profiles; it counts the steps that it goes through.
type filler struct {
	*Problem
	out   Profile // reused
	steps int
}

// progress is how far a job is within its profile.
type progress struct {
	left float64 // work
	lost float64 // what is left of a pause
	have int     // devices
}

func (e *entry) begin() progress { return progress{left: e.Work, lost: e.Owed, have: e.Present} }

// run goes on with a rung for some time, and returns how much of it passed before the work was done; false if it was not.
func (g *progress) run(r rung, time float64) (float64, bool) {
	if r.devices != g.have {
		g.lost, g.have = r.pause, r.devices
	}
	if r.devices == 0 {
		g.lost = 0
		return 0, false
	}
	if trained := time - g.lost; trained > 0 {
		done := r.speed * trained
		if done >= g.left {
			return g.lost + g.left/r.speed, true
		}
		g.left -= done
	}
	g.lost = math.Max(0, g.lost-time)
	return 0, false
}

// fill makes the profile of a job within a shape and what is free; false if it
// misses its deadline. The profile is good until the next call.
func (f *filler) fill(e *entry, in free, s shape) (Profile, bool) {
	g := e.begin()
	f.out = f.out[:0]
	for i, from := 0, 0; ; {
		f.steps++
		begin := f.start(from)
		if begin >= e.Deadline {
			return nil, false
		}
		top, to := s.on(from)
		if best := e.rungs[max(0, s.before, s.after)].speed; best*(e.Deadline-begin) < g.left && (from > 0 || !e.Kept) {
			return nil, false // the work is too much for what is left of the time
		}
		if i+1 < len(in) {
			to = min(to, in[i+1].at)
		}
		r := rung{}
		if e.Kept && from == 0 {
			r, to = e.present, 1
		} else if k := e.below(top, in[i].devices); k >= 0 {
			r = e.rungs[k]
		}
		if n := len(f.out); n == 0 || f.out[n-1].Devices != r.devices {
			f.out = append(f.out, Run{From: from, Devices: r.devices})
		}
		end := e.Deadline
		if to < math.MaxInt {
			end = math.Min(end, f.start(to))
		}
		if math.IsInf(end, 1) && r.devices == 0 {
			return nil, false
		}
		if spent, done := g.run(r, end-begin); done {
			f.out = append(f.out, Run{From: max(from+1, f.after(math.Min(begin+spent, end)))})
			return f.out, true
		}
		if to == math.MaxInt {
			return nil, false
		}
		if from = to; i+1 < len(in) && in[i+1].at == to {
			i++
		}
	}
}

// share fills a job at the least level that keeps its deadline: its minimum satisfactory share.
func (f *filler) share(e *entry, in free) (Profile, bool) {
	for k := e.least(); k < len(e.rungs); k++ {
		if p, ok := f.fill(e, in, level(k)); ok {
			return slices.Clone(p), true
		}
	}
	return nil, false
}

// keeps reports whether a profile does the job's work by its deadline, and the device time that it takes.
func (f *filler) keeps(e *entry, p Profile) (deviceTime float64, ok bool) {
	if len(p) == 0 || p[0].From != 0 {
		return 0, false
	}
	g := e.begin()
	for i := range len(p) - 1 {
		r := rung{}
		if n := p[i].Devices; n == e.Present && n > 0 {
			r = e.present
		} else if n > 0 {
			k := slices.IndexFunc(e.rungs, func(r rung) bool { return r.devices == n })
			if k < 0 {
				return 0, false
			}
			r = e.rungs[k]
		}
		if p[i].From == 0 && e.Kept && r.devices != e.Present {
			return 0, false
		}
		begin := f.start(p[i].From)
		time := math.Min(e.Deadline, f.start(p[i+1].From)) - begin
		if time <= 0 {
			return 0, false
		}
		spent, done := g.run(r, time)
		if done {
			return deviceTime + float64(r.devices)*spent, true
		}
		deviceTime += float64(r.devices) * time
	}
	return deviceTime, g.left <= slack*math.Max(e.Work, f.Slot)
}
