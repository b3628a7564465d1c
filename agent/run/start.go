package run

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// CheckBound is how long the node may take to look at what the workers need:
// longer than any of the looks' own bounds, shorter than the leader's patience
// with a start, so that it gets to know why. A file system that hangs cannot be
// interrupted, only left alone.
const CheckBound = 45 * time.Second

// stepBind goes from a run without a plan to one that starts, or to its end.
func (s *State) stepBind(f *Facts) {
	if s.phase != unbound || s.Killing() {
		return
	}
	switch {
	case s.wish.Retire:
		s.kill(f, "cleared before it was told to start")
	case s.binds && !f.Binding.Done: // it writes to the run directory's disk, which may hang
		s.overdue(f)
	case s.binds:
		s.binds = false
		s.Report.DeviceFiles, s.Report.Processes, s.keep = f.Binding.DeviceFiles, f.Binding.Processes, true
		s.waiting("")
		if f.Binding.Failed != nil {
			s.fail(f, *f.Binding.Failed)
			return
		}
		s.phase, s.by = checking, f.Now+int64(CheckBound)
		s.do(CheckNode{})
		s.at(s.by)
	case s.reads && !f.Plan.Done:
		s.overdue(f)
	case s.reads && f.Plan.Failed != nil:
		s.fail(f, *f.Plan.Failed)
	case s.reads:
		s.reads, s.binds = false, true
		s.plan(f.Plan.Order)
		s.do(Bind{})
		s.at(s.by)
	case s.wish.Start:
		s.reads, s.by = true, f.Now+int64(CheckBound)
		s.waiting("reading the plan")
		s.do(ReadPlan{})
		s.at(s.by)
	}
}

// overdue fails the run if what it waits for takes longer than it may. It can only be left alone.
func (s *State) overdue(f *Facts) {
	if s.by == 0 { // the shell has begun it, and waits for it before its first Step
		return
	}
	if f.Now < s.by {
		s.at(s.by)
		return
	}
	s.fail(f, record.Failed{Kind: record.Transient, Reason: fmt.Sprintf("no answer within %s: %s", CheckBound, s.Report.Waiting)})
}

// stepChecked goes on when the node is looked at and the locks are taken.
func (s *State) stepChecked(f *Facts) {
	if s.phase != checking {
		return
	}
	p := f.Node
	if !p.Done {
		if !s.Killing() {
			s.waiting(p.Waiting)
			s.overdue(f)
		}
		return
	}
	s.phase = ready
	s.waiting("")
	if p.Unforkable != "" {
		s.Report.Unforkable, s.keep = record.Reason(p.Unforkable), true
	}
	if p.Failed != nil && !s.Killing() {
		s.fail(f, *p.Failed)
	}
}

// stepStart has the workers executed once everything allows it.
func (s *State) stepStart(f *Facts) {
	switch {
	case s.Killing() && (s.phase == ready || s.phase == unbound):
		s.phase = running // nothing is executed any more
	case s.phase != ready:
	case s.order.Strict && s.wish.Deadline == 0:
		s.waiting("the agent has not told the first fencing deadline")
	case !s.ahead.settled(f):
		// Workers must not be executed beside what ran ahead of another start: it is cleared away first.
	default:
		s.phase = starting
		s.waiting("")
		s.do(Execute{})
	}
}

// stepExecuted goes on when no more workers are being executed.
func (s *State) stepExecuted(f *Facts) {
	if s.phase != starting || !f.Execution.Done {
		return
	}
	if why := f.Execution.Unreleased; why != "" {
		s.giveUp(GiveUp{Why: why})
		s.phase = ready
		return
	}
	s.phase = running
	if f.Execution.Warm {
		s.Report.Warm, s.keep = true, true
		s.ahead.over = true
	}
	// The report names the workers once all are executed: agents take that for the start.
	var all []record.Worker
	for _, r := range s.ranks {
		if r.executed {
			all = append(all, r.Worker)
		}
	}
	if len(all) == len(s.ranks) {
		s.Report.Workers, s.keep = all, true
	}
	if f.Execution.Failed != nil {
		s.fail(f, *f.Execution.Failed)
	}
}
