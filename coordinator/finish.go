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
func succeed(in situation) *move {
	if !in.roll.AllFinished() {
		return nil
	}
	return end(in, cluster.Succeeded, "every rank exited 0")
}

// end sends DONE: the job keeps no devices and never runs again.
func end(in situation, phase cluster.Phase, reason string) *move {
	m := recordPhase(in, string(phase), next(in, phase, reason))
	m.grant = &granting{}
	return m
}

// stopIdle ends a job that has no workers and whose owner wants it stopped.
func stopIdle(in situation) *move {
	if !in.unwanted() {
		return nil
	}
	return end(in, cluster.Stopped, stoppedWhy(in.job))
}

// allGone reports whether nothing of a halted generation is left. Its last
// checkpoint has been committed by then: that rule comes first.
func allGone(in situation) bool { return in.roll.AllGone() || len(in.roll) == 0 }

// stopHalted ends a job whose owner wants it stopped.
func stopHalted(in situation) *move {
	if !in.unwanted() {
		return nil
	}
	return end(in, cluster.Stopped, stopped(in, stoppedWhy(in.job)))
}

// stopSpent ends a job that has been running for as long as it may.
func stopSpent(in situation) *move {
	if !in.Spent(in.now) {
		return nil
	}
	return end(in, cluster.Stopped, stopped(in, spentWhy(in.job)))
}

// exclude queues a job without the nodes that have refused its last generation.
func exclude(in situation) *move {
	if len(withExclusions(in).Excluded) <= len(in.state().Excluded) {
		return nil
	}
	return recordPhase(in, "exclude", requeued(in))
}

// backOffUnformed makes a job wait of which several generations in a row did not form.
func backOffUnformed(in situation) *move {
	if neverRan(in) < patience {
		return nil
	}
	return backOff(in, in.state().Restarts, neverRan(in)-patience, in.gen.Halt.Value.Why)
}

// restart starts the next generation.
func restart(in situation) *move { return start(in, in.world().Size(), in.gen.Halt.Value.Why) }

// awaitDecision leaves a job as it is that the answer to a question may start from here.
func awaitDecision(in situation) *move {
	if in.asking() && in.target.Workers() == 0 {
		return leave()
	}
	return nil
}

// requeue puts a job back into the queue.
func requeue(in situation) *move { return recordPhase(in, "queue", requeued(in)) }

func stoppedWhy(j *job) string {
	if j.Wanted.Value.Now {
		return atOnceBy(j.Wanted.Value.By)
	}
	return "stopped by " + j.Wanted.Value.By
}

// stopped adds to the reason for which a job was stopped what its last save did not keep.
func stopped(in situation, reason string) string {
	if so := in.state().Reason; strings.HasPrefix(so, reason) {
		reason = so // whom the halt's deadline has killed, too
	}
	if begun, known := stepsBegun(in); known && begun > in.Committed.Value.Step {
		since := "its last checkpoint"
		if !in.Committed.Exists() {
			since = "the beginning: it never saved"
		}
		reason += fmt.Sprintf("; lost: %s since %s", count(int(begun-in.Committed.Value.Step), "step"), since)
	}
	if first, failed := firstFailure(in); failed && !strings.Contains(reason, first.text()) {
		reason += "; " + first.text()
	}
	return reason
}

// requeued is the state of a job that goes back to the queue from a halt.
func requeued(in situation) record.State {
	s := next(in, cluster.Queued, in.gen.Halt.Value.Why)
	refused := withExclusions(in)
	s.Excluded, s.Passing = refused.Excluded, refused.Passing
	if shouldPin(in) {
		s.Pinned = true
		s.Reason += "; the script saved nothing when it was halted"
	}
	return s
}

// shouldPin reports whether a halt lost work that the job could have saved: it
// ended with no checkpoint newer than the one it began from although steps were
// begun. Halts for lost nodes and failures say nothing about how the job saves,
// nor do those that came while its workers were only starting.
func shouldPin(in situation) bool {
	halt := in.gen.Halt.Value
	if !in.gen.Halt.Exists() || !halt.Save || anyLost(in.job) || in.state().Pinned || haltedWhileImporting(in) {
		return in.state().Pinned
	}
	from := int64(-1)
	if r := in.gen.Plan.Value.Resume; r != nil {
		from = r.Step
	}
	if in.Committed.Exists() && in.Committed.Value.Step > from {
		return false
	}
	begun, known := stepsBegun(in)
	if !known { // a plain script that ran has begun something; one whose ranks would have said so has not
		return in.Rescales[in.number()].Exists() && !usesModule(in)
	}
	return begun > from
}

// importing is how long a script may take to come to its first step, or to where
// it catches SIGTERM: interpreters and libraries from a slow network file system.
// One that has not by then never will, and loses its work with each halt.
const importing = 2 * time.Minute

// haltedWhileImporting reports whether a halt came so early that a worker had not begun to
// listen for it: then no checkpoint of all ranks could be saved.
func haltedWhileImporting(in situation) bool {
	for _, m := range in.world().Members {
		acks := acks(in, m.Node)
		// Both by the node's own clock.
		if h := acks.Held.Value; h.Deaf && h.At.Sub(acks.Started.Value.ExecedAt) < importing {
			return true
		}
	}
	return false
}

// usesModule reports whether ranks of one of the job's kept generations answered a
// halt: the script uses the module, and a generation that was halted before any
// of its ranks spoke, while they imported, has begun no step.
func usesModule(in situation) bool {
	for _, g := range slices.Sorted(maps.Keys(in.Generations)) {
		world := in.Generation(g).Plan.Value.World
		for _, m := range world.Members {
			if in.node(m.Node).Ack(in.ID, g, world.Nonce).Held.Value.SDK {
				return true
			}
		}
	}
	return false
}

// stepsBegun returns the highest step that any rank of the newest generation is
// known to have begun; false if no rank or agent has reported one.
func stepsBegun(in situation) (step int64, known bool) {
	step = progress(in)
	known = step >= 0
	for _, a := range in.roll {
		if a.Held && a.SDK {
			step, known = max(step, a.Begun), true
		}
	}
	return step, known
}
