package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// blame is a member's failure.
type blame struct {
	node   cluster.NodeID
	failed record.Failed
	at     int64 // revision
}

// blame returns the failure of the generation that was recorded first, for the others may follow from it.
func (c *Coordinator) blame(f formed) (first blame, ok bool) {
	for _, m := range f.world().Members {
		failed := c.acks(f, m.Node).Failed
		if failed.Exists() && (!ok || failed.Create < first.at) {
			first, ok = blame{m.Node, failed.Value, failed.Create}, true
		}
	}
	return first, ok
}

func (b blame) text() string {
	b.failed.Reason = record.Cut(b.failed.Reason, record.MaxReason/2) // it is part of others
	switch b.failed.Kind {
	case record.NodeRefused:
		return fmt.Sprintf("%s cannot run it: %s", b.node, b.failed.Reason)
	case record.PortTaken:
		return fmt.Sprintf("rendezvous port taken on %s: %s", b.node, b.failed.Reason)
	case record.DeviceBusy:
		return fmt.Sprintf("%s cannot run it now: %s", b.node, b.failed.Reason)
	case record.NodeFenced:
		return fmt.Sprintf("node %s: %s", b.node, b.failed.Reason)
	case record.CheckpointDamaged:
		return fmt.Sprintf("%s (seen on %s)", b.failed.Reason, b.node)
	case record.NoSpace:
		return fmt.Sprintf("%s has no room: %s", b.node, b.failed.Reason)
	case record.Transient:
		return fmt.Sprintf("%s cannot run it now: %s", b.node, b.failed.Reason)
	case record.WorkerFailed:
	}
	if b.failed.Rank < 0 {
		return fmt.Sprintf("failed on %s: %s", b.node, b.failed.Reason)
	}
	return fmt.Sprintf("rank %d failed on %s: %s", b.failed.Rank, b.node, b.failed.Reason)
}

// failedFrom reports whether a worker of one of the kept generations failed that
// had resumed from the checkpoint: perhaps that was the reason, and whoever
// thinks it sound is to look again.
func (c *Coordinator) failedFrom(f formed, from record.Checkpoint) bool {
	for g, v := range f.Generations {
		plan := v.Plan.Value
		if plan.Resume == nil || *plan.Resume != from {
			continue
		}
		for _, m := range plan.World.Members {
			failed := c.mirror.Node(m.Node).Ack(f.ID, g, plan.World.Nonce).Failed
			if failed.Exists() && failed.Value.Kind == record.WorkerFailed {
				return true
			}
		}
	}
	return false
}

// haltFailed halts a generation in which something failed: the others cannot go on.
func (c *Coordinator) haltFailed(f formed) bool {
	first, ok := c.blame(f)
	if !ok {
		return false
	}
	s := c.excluding(f)
	if first.failed.Kind == record.WorkerFailed {
		s.Failure = &first.failed
	}
	return c.halt(f, order{verb: "halt", why: first.text(), state: s, event: failedEvent(first, f)})
}

// excluding is the job's state with every node that refused this generation
// excluded, for good or until what it failed of has passed.
func (c *Coordinator) excluding(f formed) record.State {
	s := c.next(f.JobView, f.state().Phase, f.state().Reason)
	if s.Phase == cluster.Running && c.now.Sub(s.Since) >= ranWell {
		s.Retries, s.RoomWaits = 0, 0
	}
	for _, m := range f.world().Members {
		failed := c.acks(f, m.Node).Failed
		passes := failed.Value.Kind == record.Transient
		if !failed.Exists() || failed.Value.Kind != record.NodeRefused && !passes {
			continue
		}
		if s.Excluded == nil {
			s.Excluded = map[cluster.NodeID]string{}
		}
		if passes && s.Excluded[m.Node] == "" {
			s.Passing = append(slices.Clone(s.Passing), m.Node)
		}
		s.Excluded[m.Node] = failed.Value.Reason
	}
	return s
}

// charged reports whether the generation ended by a failure of the job itself.
// A failure in the course of a rescale is not, nor is one in a world that also
// lost a node: workers fail because their peers are gone.
func (c *Coordinator) charged(f formed) bool {
	mark, same := f.state().Failure, false
	for _, m := range f.world().Members {
		failed := c.acks(f, m.Node).Failed
		if failed.Exists() && failed.Value.Kind != record.WorkerFailed || f.gen.Fences[m.Node].Exists() {
			return false
		}
		same = same || mark != nil && failed.Exists() && failed.Value.At.Equal(mark.At) && failed.Value.Rank == mark.Rank
	}
	return same && !lostAny(f)
}

// fail ends a generation that failed: with a wait before the next, or for good.
func (c *Coordinator) fail(f formed) bool {
	restarts, most := f.state().Restarts+1, f.Spec.Value.MaxRestarts
	reason := f.gen.Halt.Value.Why
	if restarts > most {
		return c.end(f, cluster.Failed, fmt.Sprintf("%s; gave up after %s", reason, count(most, "restart")))
	}
	return c.backOff(f, restarts, restarts-1, fmt.Sprintf("%s; restart %d of %d", reason, restarts, most))
}

// backOff makes the job wait; the wait doubles with each of n failures before.
func (c *Coordinator) backOff(f formed, restarts, n int, reason string) bool {
	s := c.next(f.JobView, cluster.Backoff, reason)
	s.Restarts, s.Next = restarts, c.now.Add(doubled(c.cfg.Timing.BackoffFirst, c.cfg.Timing.BackoffMost, n))
	return c.put(f, "backoff", s)
}

// put records a phase in which the job holds no devices.
func (c *Coordinator) put(f formed, verb string, s record.State) bool {
	then := c.fit(f.ID, append([]record.Op{record.Put(record.StateKey(f.ID), s)}, c.release(f.JobView, cluster.World{})...))
	note := phaseNote(f.JobView, s)
	if s.Phase == f.state().Phase {
		note.Text = "" // the phase is as it was
	}
	return c.send(move{verb: verb, job: f.JobView, then: then, note: note})
}

// retry ends a wait: the job starts if it may, or stands in the queue again.
func (c *Coordinator) retry(f formed) bool {
	if at := c.retryAt(f); c.clock.Before(at) {
		c.wake(at)
		return false
	}
	why, _, _ := strings.Cut(f.state().Reason, againWhy)
	if c.start(f, 0, restartAfter+why) {
		return true
	}
	return c.put(f, "queue", c.next(f.JobView, cluster.Queued, restartAfter+why))
}

// restartAfter begins the reason of a start that follows a wait, also where it has to be decided anew.
const restartAfter = "restart after: "

// barren counts the newest generations in a row that never ran as a gang: their
// rescale was never accounted for. Whatever hinders them may hinder the next.
func (c *Coordinator) barren(f formed) int {
	n := 0
	for g := f.number(); g > 0 && n < 16 && !f.Rescales[g].Exists(); g-- {
		n++
	}
	return n
}
