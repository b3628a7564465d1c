package run

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// phase is how far a run has come with its workers.
//
//	unbound ──► checking ──► ready ──► starting ──► running ──► Report.Stopped
//	   │            │           │           │
//	   └────────────┴───────────┴───────────┴──► it is killed ──► running: nothing starts any more
type phase uint8

const (
	unbound  phase = iota // the plan is not known, or its groups are not made
	checking              // the node is looked at, the locks are taken
	ready                 // all is there; only the deadline may be missing
	starting              // workers are being executed
	running               // all were executed, or none will be any more
)

// State is what a run has decided and said. Make it with New.
type State struct {
	reporting
	agenda

	wish   Wish // with what an earlier one has asked for and no later one can take back
	phase  phase
	ranks  []rank // by local rank
	reads  bool   // the plan is being read
	binds  bool   // the groups are being made
	by     int64  // when the plan has to be read, or the node looked at
	ahead  ahead
	halt   halt
	killed killed
	fails  failure
	end    end
	// signalledAt is when workers were last asked to stop, or first killed.
	signalledAt time.Time
}

// reporting is what the run says, and of what.
type reporting struct {
	// Report is all that agents are told. Only the run changes it.
	Report Report

	order Order
	said  said
	keep  bool // the report has changed
	tell  bool // it has, in what is of no use on disk
}

// waiting has the report say what keeps the workers from being executed.
func (r *reporting) waiting(what string) {
	if r.Report.Waiting != what {
		r.Report.Waiting, r.keep = what, true
	}
}

// agenda is what the Step under way finds to be due.
type agenda struct{ due Due }

// do adds an action.
func (a *agenda) do(what Action) { a.due.Actions = append(a.due.Actions, what) }

// at asks for a Step at that time.
func (a *agenda) at(t int64) {
	if a.due.At == 0 || t < a.due.At {
		a.due.At = max(t, 1)
	}
}

// look asks for facts that nothing announces, and reports whether they were looked at for this Step.
func (a *agenda) look(f *Facts, what Look) bool {
	a.due.Look |= what
	return f.Looked&what == what
}

// rank is what the run has told one of its workers, and has seen of it.
type rank struct {
	record.Worker
	executed, ended     bool
	welcome, hold, stop int  // the connections over which it was told so
	term                bool // SIGTERM was sent
	told                bool // to stop: by SIGTERM, by StopAfter or by being killed
}

// New returns a run at its beginning. The shell has bound the plan of an order without Prepare before the first Step, and
// Facts.Binding says so.
func New(order Order, shim Process, containment string) *State {
	s := &State{wish: Wish{Deadline: order.Deadline}}
	s.reporting = reporting{order: order, keep: true, Report: Report{Version: ProtocolVersion, Shim: shim, Containment: containment}}
	if order.Prepare == nil {
		s.plan(order)
		s.binds = true
	}
	return s
}

// Order is what the run carries out: with its plan, once that is read.
func (s *State) Order() Order { return s.order }

// Killing reports whether the workers are being killed.
func (s *State) Killing() bool { return s.killed.why != "" }

// Executing reports whether workers are being executed.
func (s *State) Executing() bool { return s.phase == starting }

// Running reports whether all workers were executed, or none will be any more.
func (s *State) Running() bool { return s.phase == running }

// Unbound reports whether the run waits for its plan.
func (s *State) Unbound() bool { return s.phase == unbound }

// Over reports whether no worker runs, nor will.
func (s *State) Over(f *Facts) bool {
	return s.phase == running && !slices.ContainsFunc(f.Workers, Worker.runs)
}

// Step takes the facts in, and returns what has to be done now. It is to be called again once anything of them has
// changed, and at Due.At.
func (s *State) Step(f *Facts) Due {
	s.due = Due{}
	s.hear(f)
	// Exits come before kills: a worker that failed by itself must not be taken for one that this Step kills.
	s.noteWorkers(f)
	s.stepFence(f)
	s.stepBind(f)
	s.stepChecked(f)
	s.stepExecuted(f)
	s.stepHalt(f)
	s.stepAhead(f)
	s.stepStart(f)
	s.stepFailure(f)
	s.stepKill(f)
	s.stepEnd(f)
	s.stepProgress(f)
	s.due.Keep, s.due.Tell = s.keep, s.keep || s.tell
	s.keep, s.tell = false, false
	return s.due
}

// hear takes the newest wish in. A deadline stands until another is named; a halt and a start cannot be taken back, nor
// can a kill, which has begun then.
func (s *State) hear(f *Facts) {
	was, w := s.wish, f.Wish
	w.Deadline = cmp.Or(w.Deadline, was.Deadline)
	w.Start = w.Start || was.Start
	if w.Halt == nil {
		w.Halt = was.Halt
	}
	s.wish = w
	// That a deadline has arrived goes out at once. It is of no use on disk, where it would be written with each renewal.
	if s.order.Strict && s.Report.Deadline != w.Deadline {
		s.Report.Deadline, s.tell = w.Deadline, true
	}
}

// plan makes the workers of an order that has its plan.
func (s *State) plan(order Order) {
	s.order = order
	member, _, _ := order.World.Member(order.Node)
	s.ranks = nil
	for local, r := range member.Ranks() {
		s.ranks = append(s.ranks, rank{Worker: record.Worker{Rank: r, Device: deviceOf(member, local)}})
	}
}

func deviceOf(m cluster.Member, local int) cluster.DeviceID {
	if devices := m.DevicesOf(local); len(devices) > 0 {
		return devices[0]
	}
	return ""
}

// noteWorkers takes in which workers were executed and which have ended.
func (s *State) noteWorkers(f *Facts) {
	var ended []int
	for i := range s.ranks {
		r, w := &s.ranks[i], f.worker(i)
		if w.PID != 0 && !r.executed {
			r.executed, r.PID, r.StartTime = true, w.PID, w.StartTime
			if s.Report.ExecedAt.IsZero() {
				s.Report.ExecedAt, s.keep = w.ExecutedAt, true
			}
			s.killed.kills.next = 0 // what was executed after the killing began is killed at once
		}
		// A StopAfter counts as told when it has reached the rank: how long the rank took is measured from there.
		if w.StoppedAt.After(s.signalledAt) {
			s.signalledAt = w.StoppedAt
		}
		if w.Exit != nil && !r.ended {
			ended = append(ended, i)
		}
	}
	slices.SortStableFunc(ended, func(a, b int) int { return f.Workers[a].ExitedAt.Compare(f.Workers[b].ExitedAt) })
	for _, i := range ended {
		s.noteExit(f, i)
	}
}
