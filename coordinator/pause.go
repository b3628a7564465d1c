package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/record"
)

// pause forgets what was granted while the cluster is to be at rest, so that
// nothing starts, and what was asked, so that the question comes anew afterwards.
func (c *Coordinator) pause() bool {
	if !c.mirror.Paused.Exists() {
		return false
	}
	c.ungrantOthers(nil)
	c.round.full, c.round.idle, c.round.drawn = nil, nil, nil
	return true
}

// haltPaused halts a generation because the cluster is to be at rest. Its job
// goes back to the queue with what it saved.
func (c *Coordinator) haltPaused(f formed) bool {
	if !c.mirror.Paused.Exists() {
		return false
	}
	return c.halt(f, order{verb: "halt", why: c.pausedWhy(), save: true, within: c.pausedWithin(f)})
}

// hurryPaused brings a halt that began before the pause to the pause's deadline.
func (c *Coordinator) hurryPaused(f formed) bool {
	if !c.mirror.Paused.Exists() || !f.gen.Halt.Exists() || !f.gen.Halt.Value.Save {
		return false
	}
	paused := c.since(wait{what: pauseWait}, c.mirror.Paused.Value.At)
	left := max(0, c.pausedWithin(f)-c.clock.Sub(paused))
	if c.saveTime(f) <= left {
		return false
	}
	return c.send(move{
		verb: "hurry", job: f.JobView,
		then: []record.Op{record.Put(record.HaltKey(f.ID, f.number()), c.shortened(f, left))},
	})
}

// pausedWithin is how long the job's script has to save: no longer than whoever brings the cluster to rest waits.
func (c *Coordinator) pausedWithin(f formed) time.Duration {
	own := time.Duration(f.Spec.Value.HaltTimeout)
	if s := c.mirror.Paused.Value.SaveSeconds; s > 0 {
		return min(own, time.Duration(s*float64(time.Second)))
	}
	return own
}

func (c *Coordinator) pausedWhy() string {
	return "the cluster is paused: " + c.mirror.Paused.Value.Why
}
