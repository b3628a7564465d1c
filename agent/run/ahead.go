package run

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// ParkBound is how long a process may run ahead until it is parked: longer than the
// slowest frameworks take to be imported from a network file system.
const ParkBound = 5 * time.Minute

// ahead is how far a run is prepared before its plan is known. A parked process is the worker itself, executed early:
// it has run the script up to the first place that a plan, another process or the moment decides (ADR 58).
type ahead struct {
	begun, asked bool  // Park was asked for; it goes on
	ending       bool  // the parked processes are being killed
	over         bool  // nothing is parked, or will be
	by           int64 // when all have to be parked
	kills        kills
}

// settled reports whether parked processes can be released, or the start will be cold.
func (a *ahead) settled(f *Facts) bool {
	return !a.begun || a.over || !a.asked && len(f.Ahead.Parked) > 0 && !a.ending
}

// stepAhead has the processes of a prepared run run ahead, watches them, and clears away what was given up.
func (s *State) stepAhead(f *Facts) {
	a := &s.ahead
	if s.order.Prepare == nil || s.Killing() {
		return
	}
	if a.asked && !f.Ahead.Working {
		a.asked = false
		switch {
		case f.Ahead.Failed != "":
			s.giveUp(GiveUp{Why: f.Ahead.Failed})
		case !a.ending && len(f.Ahead.Parked) > 0: // also when the run has been told to start meanwhile
			s.prepared(parked(f))
		}
	}
	wanted := max(1, s.order.Prepare.Workers, s.wish.Workers)
	switch {
	case a.over:
	case a.ending:
		// Not before no other can be executed: workers must not be executed beside one.
		if s.phase == checking {
			return
		}
		if s.look(f, LookInside) && f.Inside.Empty && !a.asked {
			a.over = true
			return
		}
		a.kills.step(&s.agenda, f, KillAhead{})
	case s.phase == ready && (a.asked || a.begun && len(f.Ahead.Parked) == 0):
		s.giveUp(GiveUp{Why: "it was not parked when it had to start"})
	case s.phase != unbound:
	case !a.begun && s.order.Strict && s.wish.Deadline == 0: // nothing may run that no deadline ends
	case !a.asked && len(f.Ahead.Parked) < wanted:
		if s.prepared(Prepared{}); a.begun {
			s.prepared(parked(f)) // those that are parked wait on
		}
		a.begun, a.asked, a.by = true, true, f.Now+int64(ParkBound)
		s.do(Park{Processes: wanted - len(f.Ahead.Parked)})
		s.at(a.by)
	case a.asked && f.Now >= a.by:
		s.giveUp(GiveUp{Why: fmt.Sprintf("it was not parked within %s", ParkBound)})
	default:
		s.watchAhead(f)
	}
}

// watchAhead looks whether the processes live, and at their memory.
func (s *State) watchAhead(f *Facts) {
	a := &s.ahead
	if a.asked {
		s.at(a.by)
	}
	if f.Ahead.Living == 0 || !s.look(f, LookAhead) {
		return
	}
	for _, p := range f.Ahead.Parked {
		if p.Dead {
			s.giveUp(GiveUp{Why: "what was parked has ended"})
			return
		}
	}
	limit := int64(s.order.Limits.MemoryBytes) //nolint:gosec // as large as the kernel's own numbers
	switch most := s.order.Prepare.Memory; {
	case limit > 0 && f.Ahead.Most > limit:
		s.giveUp(GiveUp{
			Why: fmt.Sprintf("it has %d MiB of memory before its start, and a worker may have %d", f.Ahead.Most>>20, limit>>20), Heavy: true,
		})
	case most > 0 && f.Ahead.Memory > most:
		s.giveUp(GiveUp{
			Why: fmt.Sprintf("%d parked processes have %d MiB of memory, and may have %d", f.Ahead.Living, f.Ahead.Memory>>20, most>>20), Heavy: true,
		})
	}
}

// parked describes the parked processes for the report.
func parked(f *Facts) Prepared {
	p := Prepared{Ready: true, Workers: len(f.Ahead.Parked)}
	for i, each := range f.Ahead.Parked {
		if p.Memory += each.Memory; i == 0 {
			p.Parked = each.Place
		}
	}
	return p
}

// prepared reports how far a prepared run is.
func (r *reporting) prepared(p Prepared) { r.Report.Prepared, r.keep = &p, true }

// giveUp has the workers be executed as without a preparation.
func (s *State) giveUp(g GiveUp) {
	if s.ahead.ending {
		return
	}
	s.ahead.begun, s.ahead.ending = true, true
	s.prepared(Prepared{Cold: record.Reason(g.Why)})
	s.do(g)
}
