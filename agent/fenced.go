package agent

import (
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/record"
)

// Fenced reports whether the workers of all runs die by a deadline of which this
// node's lease is not needed any more: each shim that may have any has confirmed
// the one that it was told last. Only then may the node promise that they do,
// upon which the leader takes it for gone without asking it.
//
// What was sent counts for nothing: a shim that hangs reads it late or never. A
// shim of a version that confirms nothing keeps the promise from being given as long
// as it lives; a promise that was given before stands, as its deadline only moves.
func Fenced(runs []Run) bool {
	for _, r := range runs {
		if !r.ended() && !r.confirmed() {
			return false
		}
	}
	return true
}

// confirmed reports whether the deadline that the shim was told last is in force there.
func (r Run) confirmed() bool {
	if r.Shim != Live || r.Report == nil || r.Pushed == nil {
		return false
	}
	told := r.Pushed.Deadline
	return told != 0 && told != fence.Never && r.Report.Deadline == told
}

// Kill is what the agent kills itself of a run, without asking its shim.
type Kill uint8

// What is killed.
const (
	KillNothing Kill = iota
	KillWorkers      // the workers; their shim says that it is at it, and may have more to say
	KillAll          // the shim as well: stopped as it may be, it must not go on later
)

// Overdue says what the agent kills of a run whose deadline is over, by the clock
// now (CLOCK_BOOTTIME) and a grace: where the shim has not done what it is there
// for. deadline is the last that the shim was told by its own life's lease. A shim
// that has reported to be killing is given patience more, and one that has named
// what survives SIGKILL is left alone: more kills change nothing. Where no run is
// known of there is no shim either, and a sweep has to find what there is.
func Overdue(now, deadline int64, r Run, t Times) Kill {
	switch {
	case r.gone() || r.Shim == Absent || !fence.Overdue(now, deadline, t.Grace):
		return KillNothing
	case r.Shim != Live || r.Report == nil || r.Report.Failed == nil || r.Report.Failed.Kind != record.NodeFenced:
		return KillAll
	case len(r.Report.Unkillable) > 0:
		return KillNothing
	case fence.Overdue(now, deadline, t.Grace+t.Patience):
		return KillAll
	}
	return KillWorkers
}

// Times are those of Overdue.
type Times struct {
	Grace    time.Duration // fence.Grace, where no shorter lease was chosen
	Patience time.Duration // with a shim that is killing: longer than it takes to call something unkillable
}

// HangPatience is how long a shim may take to do what it was told for good: longer
// than it takes to name what survives SIGKILL, or to write its last report and to remove its groups.
const HangPatience = 20 * time.Second

// hangs reports whether the shim does not do what it was told: to kill, or to go.
// One that names what does not die does what it can.
func (r Run) hangs() bool {
	switch {
	case r.Shim != Live || r.Swept:
		return false
	case r.Report != nil && r.Report.Stopped != nil:
		return r.ToldToGo >= HangPatience
	}
	return r.ToldToKill >= HangPatience && (r.Report == nil || len(r.Report.Unkillable) == 0)
}
