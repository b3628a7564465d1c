package admit

import "math"

// rung is a number of devices that is faster than every smaller one.
type rung struct {
	devices int
	speed   float64
	pause   float64
}

// entry is a job with what is computed of it once.
type entry struct {
	Job
	rungs   []rung // the running maximum of its speeds, so that a higher rung is never slower
	present rung   // what it has now, on the ladder or not
}

func newEntry(j Job) *entry {
	e := &entry{Job: j}
	for k, n := range j.Counts {
		r := rung{devices: n, speed: j.Speeds[k]}
		if j.Pauses != nil {
			r.pause = j.Pauses[k]
		}
		if n == j.Present {
			e.present = r
		}
		if top := len(e.rungs) - 1; top < 0 || r.speed > e.rungs[top].speed {
			e.rungs = append(e.rungs, r)
		}
	}
	return e
}

// below is the highest rung, of those up to level, for which so many devices suffice; -1 = none.
func (e *entry) below(level, devices int) int {
	for level >= 0 && e.rungs[level].devices > devices {
		level--
	}
	return level
}

// least is the lowest level that could do the work on an empty cluster; len(rungs) if none could.
func (e *entry) least() int {
	if math.IsInf(e.Deadline, 1) {
		return 0
	}
	for k, r := range e.rungs {
		if r.speed*e.Deadline >= e.Work {
			return k
		}
	}
	return len(e.rungs)
}
