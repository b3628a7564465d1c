package shim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// stopGrace is what workers get between SIGTERM and SIGKILL when there is nothing to save.
const stopGrace = 2 * time.Second

// settleHalt carries out the leader's halt:
//
//	halt seen ──► connected ranks: hold ──► all answered: Held ──► stop_after ──► they exit
//	         │                                               └──► terminate: SIGTERM ──► they exit
//	         └──► its time is over, or it allows no save: SIGKILL
//
// A rank that is not connected may be a plain script, or still importing: only
// the leader, who hears of all ranks, can tell. One that connects during the
// halt is held before it begins a step (workerServer.hello).
//
// The time is measured here, from the moment the halt was first seen: the leader's
// clock need not agree with this node's, and the leader withdraws the permit anyway.
func (m *machine) settleHalt(now int64) {
	h := m.wish.Halt
	if h == nil || m.killed != "" || m.over() {
		return
	}
	if m.haltSeen == 0 {
		m.haltSeen, m.haltEnds = now, now+int64(haltSpan(h))
	}
	m.alarm.at(m.haltEnds)
	switch {
	case !h.Save:
		m.kill("halt: " + h.Why)
		return
	case now >= m.haltEnds:
		m.kill(fmt.Sprintf("the halt's time of %s is over: %s", haltSpan(h), h.Why))
		return
	case m.phase == preparing || m.phase == ready:
		m.held(-1)
		m.kill("halted before its workers were executed: " + h.Why)
		return
	case m.phase == starting:
		return
	}
	m.holdRanks()
	switch {
	case h.StopAfter != nil:
		m.stopRanks(*h.StopAfter, now)
	case h.Terminate:
		for _, w := range m.workers {
			m.sigterm(w)
		}
	}
}

func haltSpan(h *record.Halt) time.Duration {
	if h.At.IsZero() || h.Deadline.IsZero() {
		return time.Duration(cluster.DefaultHaltTimeout)
	}
	return max(0, h.Deadline.Sub(h.At))
}

// holdRanks asks every connected rank how far it is.
func (m *machine) holdRanks() {
	complete, begun := true, int64(-1)
	for _, w := range m.workers {
		switch {
		case !w.runs(), w.link == nil:
		case !w.link.holding:
			w.link.hold()
			complete = false
		case w.begun == nil:
			complete = false
		}
		if w.begun != nil {
			begun = max(begun, *w.begun)
		}
	}
	if complete {
		m.held(begun)
	}
}

func (m *machine) held(begun int64) {
	if m.report.Held == nil {
		m.report.Held, m.dirty = &record.Held{SDK: m.sdkSeen, Begun: begun, Deaf: m.deaf(), At: time.Now()}, true
		m.log.Info().Bool("sdk", m.sdkSeen).Int64("begun", begun).Bool("deaf", m.report.Held.Deaf).Msg("held")
	}
}

// deaf reports whether a worker here would not notice being asked to stop, or none runs yet.
func (m *machine) deaf() bool {
	return m.phase == preparing || m.phase == ready || slices.ContainsFunc(m.workers, func(w *worker) bool {
		return w.runs() && w.link == nil && !catches(w.PID, unix.SIGTERM)
	})
}

// stopRanks tells the SDK ranks their last step; or all to go at once if nothing was begun anywhere.
func (m *machine) stopRanks(last, now int64) {
	if last < 0 {
		for _, w := range m.workers {
			m.sigterm(w)
		}
		if m.stopNow == 0 {
			m.stopNow = now + int64(stopGrace)
		}
		if now >= m.stopNow {
			m.kill("halt: still running after SIGTERM, with nothing to save")
			return
		}
		m.alarm.at(m.stopNow)
		return
	}
	for _, w := range m.workers {
		if !w.runs() || w.link == nil || w.link.stopping {
			continue
		}
		w.link.stopping = true
		w.told = true
		w.link.send(toWorker{StopAfter: &last}, func() { m.signalledAt = time.Now() })
	}
}

// sigterm asks a worker to stop, once. It goes to the worker's process alone: its
// data loaders are its own to stop, and often needed for the last step.
func (m *machine) sigterm(w *worker) {
	if !w.runs() || w.term {
		return
	}
	w.term, w.told = true, true
	m.signalledAt = time.Now()
	// Not reaped yet, so the pid cannot be anybody else's.
	if err := unix.Kill(w.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		m.log.Warn().Err(err).Int("rank", w.Rank).Msg("send SIGTERM")
	}
}
