package host

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/record"
)

// hosted is what this agent knows of one generation's run here: its directory, its shim, and what is
// being done with what it saved. The loop owns it.
type hosted struct {
	beginning

	jg      record.JobGen
	nonce   string // of the world that it is for
	dir     string
	order   run.Order
	process run.Process // the shim's, of a run that was adopted
	shim    agent.Shim
	report  *run.Report
	saved   []run.Save // of the newest steps, as far as this agent knows them
	wish    wishes

	resume resumeCheck
	sweep  sweepResult

	saves   *saves.Run // what is being done with what it saves
	changed time.Time  // when anything of this last changed
}

// beginning is how a run comes to have workers.
type beginning struct {
	refused    *record.Failed // why it could not be started
	binding    agent.Binding  // whether it was prepared, and has its plan
	unprepared string         // why it could not be prepared here
	life       int64          // of the node, in which this agent has prepared it; 0 = it has not
}

// wishes is what the shim was told.
type wishes struct {
	next   chan run.Wish // hands the newest wish to the goroutine that serves the connection
	pushed *run.Wish     // the last one that went over the present connection
	// deadline is what the watchdog holds the workers to: 0 = not known, fence.Never = to nothing.
	deadline int64
	killed   bool // by the watchdog
	// toldToKill and toldToRetire are when the shim was first told so; zero = not yet.
	toldToKill, toldToRetire time.Time
}

// sweepResult is what the last sweep of a run has found.
type sweepResult struct {
	done       bool              // nothing of the run is left
	problem    string            // why it could not be done
	unkillable *sweep.Unkillable // what has survived it
}

// resumeCheck is the check of the checkpoint to resume from.
type resumeCheck struct {
	sound  bool
	cancel context.CancelFunc // ends the check
}

// holds reports whether the run may have processes.
func (r *hosted) holds() bool {
	return r.shim != agent.Absent && (r.report == nil || r.report.Stopped == nil)
}

// bindingOf is where a run stands with its plan, by the order in its directory.
func bindingOf(o run.Order) agent.Binding {
	switch {
	case o.Prepare == nil:
		return agent.Planned
	case o.Planned():
		return agent.Bound
	}
	return agent.Unbound
}
