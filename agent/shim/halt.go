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

// halter carries out the leader's halt. The loop owns it.
type halter struct {
	*shared
	*reporter

	killer *killer

	seen, ends int64 // when the halt was first seen, when it is over
	stopNow    int64 // when what has nothing to save is killed
	sdkSeen    bool  // any rank has ever said hello
}

// stepHalt carries out the leader's halt:
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
func (h *halter) stepHalt(now int64) {
	halt := h.wish.Halt
	if halt == nil || h.killer.why != "" || h.over() {
		return
	}
	if h.seen == 0 {
		h.seen, h.ends = now, now+int64(haltSpan(halt))
	}
	h.alarm.at(h.ends)
	switch {
	case !halt.Save:
		h.killer.kill("halt: " + halt.Why.String())
		return
	case now >= h.ends:
		h.killer.kill(fmt.Sprintf("the halt's time of %s is over: %s", haltSpan(halt), halt.Why))
		return
	case h.phase <= ready:
		h.held(-1)
		h.killer.kill("halted before its workers were executed: " + halt.Why.String())
		return
	case h.phase == starting:
		return
	}
	h.holdRanks()
	switch {
	case halt.StopAfter != nil:
		h.stopRanks(*halt.StopAfter, now)
	case halt.Terminate:
		for _, w := range h.workers {
			h.sigterm(w)
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
func (h *halter) holdRanks() {
	complete, begun := true, int64(-1)
	for _, w := range h.workers {
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
		h.held(begun)
	}
}

func (h *halter) held(begun int64) {
	if h.report.Held == nil {
		h.report.Held, h.dirty = &record.Held{SDK: h.sdkSeen, Begun: begun, Deaf: h.deaf(), At: time.Now()}, true
		h.log.Info().Bool("sdk", h.sdkSeen).Int64("begun", begun).Bool("deaf", h.report.Held.Deaf).Msg("held")
	}
}

// deaf reports whether a worker here would not notice being asked to stop, or none runs yet.
func (h *halter) deaf() bool {
	return h.phase <= ready || slices.ContainsFunc(h.workers, func(w *worker) bool {
		return w.runs() && w.link == nil && !catches(w.PID, unix.SIGTERM)
	})
}

// stopRanks tells the SDK ranks their last step; or all to go at once if nothing was begun anywhere.
func (h *halter) stopRanks(last, now int64) {
	if last < 0 {
		for _, w := range h.workers {
			h.sigterm(w)
		}
		if h.stopNow == 0 {
			h.stopNow = now + int64(stopGrace)
		}
		if now >= h.stopNow {
			h.killer.kill("halt: still running after SIGTERM, with nothing to save")
			return
		}
		h.alarm.at(h.stopNow)
		return
	}
	for _, w := range h.workers {
		if !w.runs() || w.link == nil || w.link.stopping {
			continue
		}
		w.link.stopping = true
		w.told = true
		w.link.send(toWorker{StopAfter: &last}, func() { h.killer.signalledAt = time.Now() })
	}
}

// sigterm asks a worker to stop, once. It goes to the worker's process alone: its
// data loaders are its own to stop, and often needed for the last step.
func (h *halter) sigterm(w *worker) {
	if !w.runs() || w.term {
		return
	}
	w.term, w.told = true, true
	h.killer.signalledAt = time.Now()
	// Not reaped yet, so the pid cannot be anybody else's.
	if err := unix.Kill(w.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		h.log.Warn().Err(err).Int("rank", w.Rank).Msg("send SIGTERM")
	}
}
