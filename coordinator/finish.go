package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// patience is how many generations in a row may fail to form before the next has to wait.
const patience = 2

// succeed ends a job all of whose ranks have exited 0 unasked.
func (c *Coordinator) succeed(f formed) bool {
	return f.roll.AllFinished() && c.end(f, cluster.Succeeded, "every rank exited 0")
}

// end sends DONE: the job keeps no devices and never runs again.
func (c *Coordinator) end(f formed, phase cluster.Phase, reason string) bool {
	c.ungrant(f.ID)
	return c.put(f, string(phase), c.next(f.JobView, phase, reason))
}

// stopIdle ends a job that has no workers and whose owner wants it stopped.
func (c *Coordinator) stopIdle(f formed) bool {
	return f.unwanted() && c.end(f, cluster.Stopped, stoppedWhy(f))
}

// over decides what follows when nothing of a halted generation is left. Its
// last checkpoint has been committed by then: that rule comes first.
func (c *Coordinator) over(f formed) bool {
	if !f.roll.AllGone() && len(f.roll) > 0 {
		return false
	}
	halt := f.gen.Halt.Value
	switch {
	case c.succeed(f):
		return true
	case f.unwanted():
		return c.end(f, cluster.Stopped, c.stopped(f, stoppedWhy(f)))
	case f.Spent(c.now):
		return c.end(f, cluster.Stopped, c.stopped(f, spentWhy(f)))
	case c.charged(f):
		return c.fail(f)
	case len(c.excluding(f).Excluded) > len(f.state().Excluded):
		return c.put(f, "exclude", c.requeued(f))
	case c.noOther(f), c.awaitTransient(f), c.hold(f), c.awaitRoom(f):
		return true
	case c.barren(f) >= patience:
		return c.backOff(f, f.state().Restarts, c.barren(f)-patience, halt.Why)
	case c.start(f, f.world().Size(), halt.Why):
		return true
	case c.round.asked != nil && c.targets.of[f.ID].Workers() == 0:
		return false // the answer may let it start from here
	}
	return c.put(f, "queue", c.requeued(f))
}

func stoppedWhy(f formed) string {
	if f.Wanted.Value.Now {
		return atOnceBy(f.Wanted.Value.By)
	}
	return "stopped by " + f.Wanted.Value.By
}

// stopped adds to the reason for which a job was stopped what its last save did not keep.
func (c *Coordinator) stopped(f formed, reason string) string {
	if so := f.state().Reason; strings.HasPrefix(so, reason) {
		reason = so // whom the halt's deadline has killed, too
	}
	if begun, known := c.begun(f); known && begun > f.Committed.Value.Step {
		since := "its last checkpoint"
		if !f.Committed.Exists() {
			since = "the beginning: it never saved"
		}
		reason += fmt.Sprintf("; lost: %s since %s", count(int(begun-f.Committed.Value.Step), "step"), since)
	}
	if first, failed := c.blame(f); failed && !strings.Contains(reason, first.text()) {
		reason += "; " + first.text()
	}
	return reason
}

// requeued is the state of a job that goes back to the queue from a halt.
func (c *Coordinator) requeued(f formed) record.State {
	s := c.next(f.JobView, cluster.Queued, f.gen.Halt.Value.Why)
	refused := c.excluding(f)
	s.Excluded, s.Passing = refused.Excluded, refused.Passing
	if c.shouldPin(f) {
		s.Pinned = true
		s.Reason += "; the script saved nothing when it was halted"
	}
	return s
}

// shouldPin reports whether a halt lost work that the job could have saved: it
// ended with no checkpoint newer than the one it began from although steps were
// begun. Halts for lost nodes and failures say nothing about how the job saves,
// nor do those that came while its workers were only starting.
func (c *Coordinator) shouldPin(f formed) bool {
	halt := f.gen.Halt.Value
	if !f.gen.Halt.Exists() || !halt.Save || lostAny(f) || f.state().Pinned || c.premature(f) {
		return f.state().Pinned
	}
	from := int64(-1)
	if r := f.gen.Plan.Value.Resume; r != nil {
		from = r.Step
	}
	if f.Committed.Exists() && f.Committed.Value.Step > from {
		return false
	}
	begun, known := c.begun(f)
	if !known { // a plain script that ran has begun something; one whose ranks would have said so has not
		return f.Rescales[f.number()].Exists() && !c.speaks(f)
	}
	return begun > from
}

// importing is how long a script may take to come to its first step, or to where
// it catches SIGTERM: interpreters and libraries from a slow network file system.
// One that has not by then never will, and loses its work with each halt.
const importing = 2 * time.Minute

// premature reports whether a halt came so early that a worker had not begun to
// listen for it: then no checkpoint of all ranks could be saved.
func (c *Coordinator) premature(f formed) bool {
	for _, m := range f.world().Members {
		acks := c.acks(f, m.Node)
		// Both by the node's own clock.
		if h := acks.Held.Value; h.Deaf && h.At.Sub(acks.Started.Value.ExecedAt) < importing {
			return true
		}
	}
	return false
}

// speaks reports whether ranks of one of the job's kept generations answered a
// halt: the script uses the module, and a generation that was halted before any
// of its ranks spoke, while they imported, has begun no step.
func (c *Coordinator) speaks(f formed) bool {
	for _, g := range slices.Sorted(maps.Keys(f.Generations)) {
		world := f.Generation(g).Plan.Value.World
		for _, m := range world.Members {
			if c.mirror.Node(m.Node).Ack(f.ID, g, world.Nonce).Held.Value.SDK {
				return true
			}
		}
	}
	return false
}

// begun returns the highest step that any rank of the newest generation is
// known to have begun; false if nobody who could know has said so.
func (c *Coordinator) begun(f formed) (step int64, known bool) {
	step = c.progress(f)
	known = step >= 0
	for _, a := range f.roll {
		if a.Held && a.SDK {
			step, known = max(step, a.Begun), true
		}
	}
	return step, known
}
