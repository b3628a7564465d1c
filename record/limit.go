package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Ran returns how long the job has been running by now, since it was submitted
// or last resumed: the time in phase running, from when the last worker of a
// generation was started until it is halted or over, summed over generations.
// Waiting, starting, saving and backing off do not count. It is read off the
// state alone, so every leader comes to the same.
func (v *JobView) Ran(now time.Time) time.Duration {
	s := v.State.Value
	ran := time.Duration(s.Ran)
	if s.Phase == cluster.Running {
		ran += max(0, now.Sub(s.Since))
	}
	return ran
}

// Spent reports whether the job has been running for as long as it may.
func (v *JobView) Spent(now time.Time) bool {
	limit := time.Duration(v.Scaled().TimeLimit)
	return limit > 0 && v.Ran(now) >= limit
}

// LimitAt returns when a running job will have reached its time limit, if it has one.
func (v *JobView) LimitAt() (at time.Time, ok bool) {
	s, limit := v.State.Value, v.Scaled().TimeLimit
	if s.Phase != cluster.Running || limit == 0 {
		return time.Time{}, false
	}
	return s.Since.Add(time.Duration(limit - s.Ran)), true
}

// TimedOut reports whether its time limit has ended the job, and not its owner.
func (v *JobView) TimedOut() bool {
	return v.State.Value.Phase == cluster.Stopped && v.Wanted.Value.Run && v.Spent(v.State.Value.Since)
}
