package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// failure is a member's failure.
type failure struct {
	node   cluster.NodeID
	failed record.Failed
	at     int64 // revision
}

// firstFailure returns the failure of the generation that was recorded first, for the others may follow from it.
func firstFailure(in situation) (first failure, ok bool) {
	for _, m := range in.world().Members {
		failed := acks(in, m.Node).Failed
		if failed.Exists() && (!ok || failed.Create < first.at) {
			first, ok = failure{m.Node, failed.Value, failed.Create}, true
		}
	}
	return first, ok
}

func (f failure) text() string {
	f.failed.Reason = record.Cut(f.failed.Reason, record.MaxReason/2) // it is part of others
	switch f.failed.Kind {
	case record.NodeRefused:
		return fmt.Sprintf("%s cannot run it: %s", f.node, f.failed.Reason)
	case record.PortTaken:
		return fmt.Sprintf("rendezvous port taken on %s: %s", f.node, f.failed.Reason)
	case record.DeviceBusy:
		return fmt.Sprintf("%s cannot run it now: %s", f.node, f.failed.Reason)
	case record.NodeFenced:
		return fmt.Sprintf("node %s: %s", f.node, f.failed.Reason)
	case record.CheckpointDamaged:
		return fmt.Sprintf("%s (seen on %s)", f.failed.Reason, f.node)
	case record.NoSpace:
		return fmt.Sprintf("%s has no room: %s", f.node, f.failed.Reason)
	case record.Transient:
		return fmt.Sprintf("%s cannot run it now: %s", f.node, f.failed.Reason)
	case record.WorkerFailed:
	}
	if f.failed.Rank < 0 {
		return fmt.Sprintf("failed on %s: %s", f.node, f.failed.Reason)
	}
	return fmt.Sprintf("rank %d failed on %s: %s", f.failed.Rank, f.node, f.failed.Reason)
}

// failedFrom reports whether a worker of one of the kept generations failed that
// had resumed from the checkpoint: perhaps that was the reason, and a node that
// has verified it has to verify it again.
func failedFrom(in situation, from record.Checkpoint) bool {
	for g, v := range in.Generations {
		plan := v.Plan.Value
		if plan.Resume == nil || *plan.Resume != from {
			continue
		}
		for _, m := range plan.World.Members {
			failed := in.node(m.Node).Ack(in.ID, g, plan.World.Nonce).Failed
			if failed.Exists() && failed.Value.Kind == record.WorkerFailed {
				return true
			}
		}
	}
	return false
}

// haltFailed halts a generation in which something failed: the others cannot go on.
func haltFailed(in situation) *move {
	first, ok := firstFailure(in)
	if !ok {
		return nil
	}
	s := withExclusions(in)
	if first.failed.Kind == record.WorkerFailed {
		s.Failure = &first.failed
	}
	return halt(in, order{verb: "halt", why: first.text(), state: s, event: failedEvent(in.job, first)})
}

// withExclusions is the job's state with every node that refused this generation
// excluded, for good or until what it failed of has passed.
func withExclusions(in situation) record.State {
	s := next(in, in.state().Phase, in.state().Reason)
	if s.Phase == cluster.Running && in.now.Sub(s.Since) >= ranWell {
		s.Retries, s.RoomWaits = 0, 0
	}
	for _, m := range in.world().Members {
		failed := acks(in, m.Node).Failed
		passes := failed.Value.Kind == record.Transient
		if !failed.Exists() || failed.Value.Kind != record.NodeRefused && !passes {
			continue
		}
		if s.Excluded == nil {
			s.Excluded = map[cluster.NodeID]string{}
		}
		if passes && !excludes(s, m.Node) {
			s.Passing = append(slices.Clone(s.Passing), m.Node)
		}
		s.Excluded[m.Node] = failed.Value.Reason
	}
	return s
}

// charged reports whether the generation ended by a failure of the job itself.
// A failure in the course of a rescale is not, nor is one in a world that also
// lost a node: workers fail because their peers are gone.
func charged(in situation) bool {
	mark, same := in.state().Failure, false
	for _, m := range in.world().Members {
		failed := acks(in, m.Node).Failed
		if failed.Exists() && failed.Value.Kind != record.WorkerFailed || in.gen.Fences[m.Node].Exists() {
			return false
		}
		same = same || mark != nil && failed.Exists() && failed.Value.At.Equal(mark.At) && failed.Value.Rank == mark.Rank
	}
	return same && !anyLost(in.job)
}

// fail ends a generation that failed: with a wait before the next, or for good.
func fail(in situation) *move {
	if !charged(in) {
		return nil
	}
	restarts, most := in.state().Restarts+1, in.Spec.Value.MaxRestarts
	reason := in.gen.Halt.Value.Why
	if restarts > most {
		return end(in, cluster.Failed, fmt.Sprintf("%s; gave up after %s", reason, count(most, "restart")))
	}
	return backOff(in, restarts, restarts-1, fmt.Sprintf("%s; restart %d of %d", reason, restarts, most))
}

// backOff makes the job wait; the wait doubles with each of n failures before.
func backOff(in situation, restarts, n int, reason string) *move {
	s := next(in, cluster.Backoff, reason)
	s.Restarts, s.Next = restarts, in.now.Add(doubled(in.cfg.Timing.BackoffFirst, in.cfg.Timing.BackoffMost, n))
	return recordPhase(in, "backoff", s)
}

// retry ends a wait: the job starts if it may, or stands in the queue again.
func retry(in situation) *move {
	if at := retryAt(in); in.clock.Before(at) {
		in.wake(at)
		return nil
	}
	why, _, _ := strings.Cut(in.state().Reason, againWhy)
	m := start(in, 0, restartAfter+why)
	if m != nil && m.sends() {
		return m
	}
	return recordPhase(in, "queue", next(in, cluster.Queued, restartAfter+why)).after(m)
}

// restartAfter begins the reason of a start that follows a wait, also where it has to be decided anew.
const restartAfter = "restart after: "

// neverRan counts the newest generations in a row that never ran as a gang: their
// rescale was never accounted for. What hinders them may hinder the next. See ADR 14.
func neverRan(in situation) int {
	n := 0
	for g := in.number(); g > 0 && n < 16 && !in.Rescales[g].Exists(); g-- {
		n++
	}
	return n
}
