package shim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// killer ends the workers, for whatever reason, and does not stop before nothing of
// them is left. The loop owns it.
type killer struct {
	*shared
	*reporter

	why         string // the workers are being killed; empty = they are not
	since       int64  // as of when what survives is looked at
	next, pause int64  // when to kill again
	done        bool   // nothing is left
	signalledAt time.Time
}

// fail reports a failure that is no worker's, and ends all.
func (k *killer) fail(kind record.FailureKind, reason string) {
	k.failed(record.Failed{Kind: kind, Reason: reason})
}

// failBy does so for an error.
func (k *killer) failBy(err error) {
	_, isMissing := errors.AsType[missing](err)
	kind := FailureOf(err)
	k.failed(record.Failed{Kind: kind, Reason: err.Error(), Missing: isMissing && kind == record.NodeRefused})
}

func (k *killer) failed(f record.Failed) {
	f.Reason = record.Reason(f.Reason) // it may quote paths and a whole PATH
	f.Rank, f.At = -1, time.Now()
	if k.report.Failed == nil && k.report.Stopped == nil && k.why == "" {
		k.report.Failed, k.dirty = &f, true
	}
	k.kill(f.Reason)
}

// kill ends all workers now. Once begun it cannot be called off.
func (k *killer) kill(why string) {
	if k.why != "" {
		return
	}
	k.why = why
	k.cancel()
	k.report.Waiting = ""
	if k.over() {
		return
	}
	k.log.Warn().Str("why", why).Msg("killing the workers")
	for _, w := range k.workers {
		if w.runs() {
			w.told = true
			if k.signalledAt.IsZero() {
				k.signalledAt = time.Now()
			}
		}
	}
}

// stepKill sends SIGKILL into the containment, again and again until it is empty.
func (k *killer) stepKill(now int64) {
	if k.why == "" || k.done || k.phase == preparing {
		return
	}
	if now < k.next {
		k.alarm.at(k.next)
		return
	}
	if err := k.containment.kill(); err != nil {
		k.log.Error().Err(err).Msg("kill the workers")
	}
	k.pause = min(max(2*k.pause, firstPause), int64(time.Second))
	k.next = now + k.pause
	k.alarm.at(k.next)
}

// stepUnkillable reports what does not die. It goes on trying.
func (k *killer) stepUnkillable(now int64) {
	if k.since == 0 {
		k.since = now
	}
	if due := k.since + int64(UnkillableAfter); now < due {
		k.alarm.at(due)
		return
	}
	left, err := k.containment.left()
	if err != nil || len(left) == 0 {
		return
	}
	pids := make([]int, len(left))
	for i, s := range left {
		pids[i] = s.pid
	}
	known := slices.Equal(pids, k.report.Unkillable)
	if known && k.report.KillPending {
		return
	}
	if !known {
		k.report.KillPending = false
	}
	if onlyKillPending(left, k.containment.left) {
		k.report.KillPending, k.dirty = true, true
	}
	if known {
		return
	}
	k.report.Unkillable, k.dirty = pids, true
	reason := fmt.Sprintf("UNKILLABLE pid %d: %s survives SIGKILL since %s: its device stays locked until the node is rebooted",
		pids[0], left[0], UnkillableAfter)
	k.log.Error().Msg(reason)
	if k.report.Failed == nil {
		k.report.Failed = &record.Failed{Kind: record.NodeRefused, Reason: reason, Rank: -1, At: time.Now(), Unkillable: pids}
	}
}
