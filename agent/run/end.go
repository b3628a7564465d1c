package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/record"
)

const (
	// leftoverGrace is what processes get that the workers have left behind:
	// helpers that notice by themselves that their parent is gone.
	leftoverGrace = time.Second
	// leftoversNamed is how many of them are named; a job may fork without end.
	leftoversNamed = 8
	// flushWait is how long the end waits for logs whose pipe stays open although
	// no process is left that should have it.
	flushWait = time.Second
	// lastWords is how long a shim that may go tries to write its last report and to remove its groups.
	lastWords = 5 * time.Second
)

// end is how far a run is on the way from its last worker's exit to the shim's own end. The times are 0 before.
type end struct {
	outSince   int64 // no worker has run since
	emptySince int64 // nothing of them has been left since
	logsClosed bool
	returning  bool // the locks are being returned
	leaveBy    int64
	left       bool // the shim was told to leave
}

// stepEnd goes from the last worker's exit to Stopped, and on to the shim's own end.
func (s *State) stepEnd(f *Facts) {
	// 1. It has stopped: the shim leaves once it may.
	if s.Report.Stopped != nil {
		s.stepLeave(f)
		return
	}
	// 2. Wait until no worker runs nor will. Preparations that hang are left to themselves: what they have of a process
	// is no worker's, and they take no lock any more.
	given := s.phase == checking && s.Killing() && !f.Node.Locking
	if !s.Over(f) && !given || f.Ahead.Executing {
		if s.Killing() {
			s.stepUnkillable(f)
		}
		return
	}
	if s.end.outSince == 0 {
		s.end.outSince = f.Now
	}
	// 3. Wait until nothing is left of what they have started. It is killed after a grace.
	if s.end.emptySince == 0 {
		if !s.look(f, LookInside) {
			return
		}
		if !f.Inside.Empty {
			s.leftovers(f)
			return
		}
		s.end.emptySince, s.killed.gone = f.Now, true
		s.Report.Unkillable, s.Report.KillPending = nil, false
	}
	// 4. Wait for the last words.
	if !s.end.returning && !s.flushed(f) {
		return
	}
	// 5. Wait until the devices' locks are there for the next run.
	if !s.end.returning {
		s.end.returning = true
		s.do(ReturnLocks{})
	}
	if f.LocksFree {
		s.stopped(f)
	}
}

// flushed reports whether all that the workers have said is read. A log that does not end on a disk that hangs is
// closed, and then left alone.
func (s *State) flushed(f *Facts) bool {
	closeLogs, leaveLogs := s.end.emptySince+int64(flushWait), s.end.emptySince+2*int64(flushWait)
	if looked := s.look(f, LookOutput); (!looked || f.Logs) && f.Now < leaveLogs {
		if f.Now < closeLogs {
			s.at(closeLogs)
			return false
		}
		if !s.end.logsClosed {
			s.end.logsClosed = true
			s.do(StopLogs{})
		}
		s.at(leaveLogs)
		return false
	}
	if s.fails.failed != nil { // stepFailure has asked for the next Step
		return false
	}
	if f.Links > 0 && f.Now < closeLogs {
		s.at(closeLogs)
		return false
	}
	return true
}

// leftovers kills what the workers have left behind.
func (s *State) leftovers(f *Facts) {
	if s.Killing() {
		s.stepUnkillable(f)
		return
	}
	if due := s.end.outSince + int64(leftoverGrace); f.Now < due {
		s.at(due)
		return
	}
	if !s.look(f, LookNames) {
		return
	}
	s.Report.Leftover = f.Inside.Names
	if more := len(f.Inside.Names) - leftoversNamed; more > 0 {
		s.Report.Leftover = append(append([]string{}, f.Inside.Names[:leftoversNamed]...), fmt.Sprintf("and %d more", more))
	}
	s.keep = true
	s.kill(f, "left behind by its workers: "+strings.Join(s.Report.Leftover, ", "))
	s.stepKill(f)
}

// stopped says that nothing of the run is left.
func (s *State) stopped(f *Facts) {
	// A run that had no worker yet has not finished: it never began.
	out := &record.Stopped{Finished: len(s.ranks) > 0, SignalledAt: s.signalledAt, ExitedAt: s.fails.exitedAt}
	for i, r := range s.ranks {
		exit := f.worker(i).Exit
		out.Finished = out.Finished && exit != nil && exit.Code == 0 && !r.told
		if exit != nil {
			out.Exits = append(out.Exits, *exit)
		}
	}
	if out.ExitedAt.IsZero() { // nothing was ever started
		out.ExitedAt = f.Clock
	}
	s.Report.Stopped, s.keep = out, true
	s.do(RemoveGroups{})
}

// stepLeave ends the shim once all that it knew is recorded, or it was told to end. Its last report and its groups keep
// it for a while.
func (s *State) stepLeave(f *Facts) {
	if !s.wish.Retire && f.Told == "" || s.end.left {
		return
	}
	if s.end.leaveBy == 0 {
		s.end.leaveBy = f.Now + int64(lastWords)
	}
	if f.Now >= s.end.leaveBy || !s.keep && f.Written && f.GroupsGone {
		s.end.left = true
		s.do(Leave{})
		return
	}
	s.at(s.end.leaveBy)
}
