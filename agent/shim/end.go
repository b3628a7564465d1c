package shim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

const (
	// leftoverGrace is what processes get that the workers have left behind:
	// helpers that notice by themselves that their parent is gone.
	leftoverGrace = time.Second
	// leftoversNamed is how many of them are named; a job may fork without end.
	leftoversNamed = 8
	// UnkillableAfter is how long a process may survive SIGKILL before it is
	// reported; drivers that reset a device take seconds.
	UnkillableAfter = 10 * time.Second
	// flushWait is how long the end waits for logs whose pipe stays open although
	// no process is left that should have it.
	flushWait = time.Second
	// clearWait is how long the end tries to remove groups that are in use, unless the shim may leave earlier.
	clearWait = 10 * time.Second

	// Bounds of pauses.
	firstPause = int64(time.Millisecond)
	lastPause  = int64(100 * time.Millisecond)
)

// lastWords is how long a shim that may go tries to write its last report and to remove its groups.
const lastWords = 5 * time.Second

// ender goes from the last worker's exit to Stopped, and on to the shim's own end.
// The loop owns it.
type ender struct {
	*shared
	*reporter

	killer *killer
	reaper *reaper
	ahead  *ahead
	locks  *lockReturn
	sdk    *workerServer

	outSince   int64 // no worker has run since
	emptySince int64 // nothing of them has been left since
	pauses     pauses
	terminated int64 // asked to go by a signal
	clearBy    int64 // the removal of groups that are in use is given up; 0 = none is tried
	inUse      error // what the last attempt to remove them said
	leaveBy    int64 // what is still to be done is given up: the last report, the groups
	ended      bool  // leave the loop
}

func (e *ender) terminate(why string) {
	if e.terminated == 0 {
		e.terminated = Boottime()
		e.killer.kill(why)
	}
}

// stepEnd goes from the last worker's exit to Stopped, and on to the shim's own end.
func (e *ender) stepEnd(now int64) {
	if e.report.Stopped != nil {
		e.stepRetire(now)
		return
	}
	// Preparations that hang are left to themselves: what they have of a process is
	// no worker's, and they take no lock any more.
	given := e.phase == preparing && e.killer.why != "" && !e.locks.taking
	if !e.over() && !given || e.forking {
		if e.killer.why != "" {
			e.killer.stepUnkillable(now)
		}
		return
	}
	if e.outSince == 0 {
		e.outSince = now
		e.reaper.reap()
	}
	if e.emptySince == 0 && !e.emptied(now) {
		return
	}
	e.stepStopped(now)
}

// emptied looks whether anything is left of what the workers have started.
func (e *ender) emptied(now int64) bool {
	empty, err := e.containment.empty()
	if err != nil {
		e.log.Error().Err(err).Msg("look for what is left")
	}
	if empty {
		e.emptySince, e.pauses, e.killer.done = now, 0, true
		e.report.Unkillable, e.report.KillPending = nil, false
		return true
	}
	e.reaper.reap()
	if e.killer.why == "" && now >= e.outSince+int64(leftoverGrace) {
		e.nameLeftovers()
	}
	if e.killer.why != "" {
		e.killer.stepUnkillable(now)
	}
	e.alarm.at(now + e.pauses.next())
	return false
}

func (e *ender) nameLeftovers() {
	left, err := e.containment.left()
	if err != nil {
		e.log.Error().Err(err).Msg("name what is left")
	}
	for i, s := range left {
		if i == leftoversNamed {
			e.report.Leftover = append(e.report.Leftover, fmt.Sprintf("and %d more", len(left)-i))
			break
		}
		e.report.Leftover = append(e.report.Leftover, s.String())
	}
	e.dirty = true
	e.killer.kill("left behind by its workers: " + strings.Join(e.report.Leftover, ", "))
}

// stepStopped waits for the logs' ends and the locks, then says Stopped. A log
// that does not end on a disk that hangs is left alone.
func (e *ender) stepStopped(now int64) {
	for _, w := range e.workers {
		if w.log == nil {
			continue
		}
		select {
		case <-w.log.done:
		default:
			if now >= e.emptySince+int64(2*flushWait) {
				continue
			}
			if now >= e.emptySince+int64(flushWait) {
				w.log.stop()
			}
			e.alarm.at(now + e.pauses.next())
			return
		}
	}
	if e.reaper.failing != nil {
		e.alarm.at(now + firstPause)
		return
	}
	// What the workers said before they were gone is still to be read.
	if len(e.sdk.links) > 0 && now < e.emptySince+int64(flushWait) {
		e.alarm.at(now + e.pauses.next())
		return
	}
	if e.locks.free(now) {
		e.stopped()
	}
}

func (e *ender) stopped() {
	// A run that had no worker yet has not finished: it never began.
	s := &record.Stopped{Finished: len(e.workers) > 0, SignalledAt: e.killer.signalledAt, ExitedAt: e.reaper.exitedAt}
	for _, w := range e.workers {
		s.Finished = s.Finished && w.exit != nil && w.exit.Code == 0 && !w.told
		if w.exit != nil {
			s.Exits = append(s.Exits, *w.exit)
		}
	}
	if s.ExitedAt.IsZero() { // nothing was ever started
		s.ExitedAt = time.Now()
	}
	e.report.Stopped, e.dirty = s, true
	e.log.Info().Bool("finished", s.Finished).Msg("stopped")
	e.clearBy, e.pauses = Boottime()+int64(clearWait), 0
	e.stepClear(Boottime())
}

// stepClear removes the run's groups. A process of others may be in one, for a moment or for long.
func (e *ender) stepClear(now int64) {
	e.inUse = e.containment.remove()
	switch {
	case e.inUse == nil:
		e.clearBy = 0
	case errors.Is(e.inUse, unix.EBUSY) && now < e.clearBy:
		e.alarm.at(now + e.pauses.next())
	default:
		e.leaveGroups()
	}
}

// leaveGroups gives up the removal of groups that are in use.
func (e *ender) leaveGroups() {
	e.clearBy = 0
	e.log.Warn().Err(e.inUse).Msg("remove cgroup")
}

func (e *ender) stepRetire(now int64) {
	if e.clearBy != 0 {
		e.stepClear(now)
	}
	if !e.wish.Retire && e.terminated == 0 {
		return
	}
	if e.leaveBy == 0 {
		e.leaveBy = now + int64(lastWords)
	}
	e.ended = now >= e.leaveBy || !e.dirty && e.durable == e.sequence && e.clearBy == 0
	if e.ended && e.clearBy != 0 {
		e.leaveGroups()
	}
	e.alarm.at(e.leaveBy)
}

// pauses between polls for things that no signal announces begin short and double.
type pauses int64

func (p *pauses) next() int64 {
	*p = min(max(2**p, pauses(firstPause)), pauses(lastPause))
	return int64(*p)
}
