package shim

import (
	"time"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/warm"
)

const (
	firstLook = 2 * time.Second
	lastLook  = 10 * time.Minute
)

// meetWatch finds out whether the workers meet at MASTER_PORT. The loop owns it.
type meetWatch struct {
	*shared

	pause, next int64
	stepped     bool // a step was reported, before which workers have met
	busy, known bool // it is being looked; it is known
}

func (k *meetWatch) step(now int64) {
	port := k.order.World.Master.Port
	if k.order.LearnedFile == "" || k.state.Report.Unforkable != "" || len(k.workers) == 0 || k.busy || k.known || port == 0 || !k.state.Running() || k.state.Over(&k.facts) {
		return
	}
	if k.next == 0 {
		k.pause = int64(firstLook)
		k.next = now + k.pause
	}
	if k.state.Report.Progress != nil && !k.stepped { // the leader has the next generation prepared from here on
		k.stepped, k.next = true, now
	}
	if now < k.next {
		k.alarm.at(k.next)
		return
	}
	k.busy = true
	path := k.order.LearnedFile
	go func() { // on a disk that may hang
		known, err := warm.NoteMeeting(path, port)
		k.post(func() {
			k.busy, k.known = false, known
			k.pause = int64(min(2*time.Duration(k.pause), lastLook))
			k.next = proc.Boottime() + k.pause
			if err != nil {
				k.heard.Warn().Err(err).Msg("what is learned of the job is not kept")
			}
		})
	}()
}
