package run

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// StopGrace is what workers get between SIGTERM and SIGKILL when there is nothing to save.
const StopGrace = 2 * time.Second

// halt is how far the leader's halt is carried out.
type halt struct {
	seen, ends int64 // when it was first seen, when it is over
	stopNow    int64 // when workers with nothing to save are killed
	sdk        bool  // a rank's SDK has ever connected
}

// stepHalt carries out the leader's halt:
//
//	halt seen ──► connected ranks: hold ──► all answered: Held ──► stop_after ──► they exit
//	         │                                               └──► terminate: SIGTERM ──► they exit
//	         └──► its time is over, or it allows no save: SIGKILL
//
// A rank that is not connected may be a plain script, or still importing: only
// the leader, who hears of all ranks, can tell.
//
// The time is measured here, from the moment the halt was first seen: the leader's
// clock need not agree with this node's, and the leader withdraws the permit anyway.
func (s *State) stepHalt(f *Facts) {
	defer s.welcome(f)
	h := s.wish.Halt
	if h == nil || s.Killing() || s.Over(f) {
		return
	}
	if s.halt.seen == 0 {
		s.halt.seen, s.halt.ends = f.Now, f.Now+int64(haltSpan(h))
	}
	s.at(s.halt.ends)
	switch {
	case !h.Save:
		s.kill(f, "halt: "+h.Why.String())
		return
	case f.Now >= s.halt.ends:
		s.kill(f, fmt.Sprintf("the halt's time of %s is over: %s", haltSpan(h), h.Why))
		return
	case s.phase <= ready:
		s.held(f, -1, true)
		s.kill(f, "halted before its workers were executed: "+h.Why.String())
		return
	case s.phase == starting:
		return // each rank is held as soon as it connects
	}
	s.holdRanks(f)
	switch {
	case h.StopAfter != nil && *h.StopAfter < 0: // no rank anywhere has begun a step
		for i := range s.ranks {
			s.sigterm(f, i)
		}
		if s.halt.stopNow == 0 {
			s.halt.stopNow = f.Now + int64(StopGrace)
		}
		if f.Now >= s.halt.stopNow {
			s.kill(f, "halt: still running after SIGTERM, with nothing to save")
			return
		}
		s.at(s.halt.stopNow)
	case h.StopAfter != nil:
		for i := range s.ranks {
			if r, w := &s.ranks[i], f.worker(i); w.runs() && w.Link != 0 && r.stop != w.Link {
				r.stop, r.told = w.Link, true
				s.do(StopAfter{Local: i, Step: *h.StopAfter})
			}
		}
	case h.Terminate:
		for i := range s.ranks {
			s.sigterm(f, i)
		}
	}
}

// haltSpan is how long a halt may take.
func haltSpan(h *record.Halt) time.Duration {
	if h.At.IsZero() || h.Deadline.IsZero() {
		return time.Duration(cluster.DefaultHaltTimeout)
	}
	return max(0, h.Deadline.Sub(h.At))
}

// holdRanks asks every connected rank how far it is. The report says that they are held once each has answered.
func (s *State) holdRanks(f *Facts) {
	complete, deaf, begun := true, false, int64(-1)
	for i := range s.ranks {
		w := f.worker(i)
		if w.runs() && w.Link != 0 {
			s.hold(i, w.Link)
			complete = complete && w.Begun != nil
		}
		if w.Begun != nil {
			begun = max(begun, *w.Begun)
		}
		deaf = deaf || w.runs() && w.Link == 0 && w.Deaf
	}
	// A rank that neither listens to its SDK nor catches SIGTERM would not notice being asked to stop.
	if complete && s.Report.Held == nil && s.look(f, LookSignals) {
		s.held(f, begun, deaf)
	}
}

func (s *State) held(f *Facts, begun int64, deaf bool) {
	if s.Report.Held == nil {
		s.Report.Held, s.keep = &record.Held{SDK: s.halt.sdk, Begun: begun, Deaf: deaf, At: f.Clock}, true
	}
}

// hold asks a rank, once over each connection.
func (s *State) hold(local, link int) {
	if r := &s.ranks[local]; r.hold != link {
		r.hold = link
		s.do(Hold{Local: local})
	}
}

// welcome lets connected ranks begin steps. During a halt it holds a rank first, so that the rank begins no step in
// between. It welcomes no rank that is being killed.
func (s *State) welcome(f *Facts) {
	if s.Killing() {
		return
	}
	for i := range s.ranks {
		r, w := &s.ranks[i], f.worker(i)
		if w.Link == 0 || r.welcome == w.Link {
			continue
		}
		s.halt.sdk = true
		r.welcome = w.Link
		if s.halt.seen != 0 {
			s.hold(i, w.Link)
		}
		s.do(Welcome{Local: i})
	}
}

// sigterm asks a worker to stop, once. It goes to the worker's process alone: its
// data loaders are its own to stop, and often needed for the last step.
func (s *State) sigterm(f *Facts, local int) {
	r := &s.ranks[local]
	if r.term || !f.worker(local).runs() {
		return
	}
	r.term, r.told = true, true
	s.signalledAt = f.Clock
	s.do(Terminate{Local: local})
}
