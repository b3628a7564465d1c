package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// patience is how many generations in a row may fail to form before the next has to wait.
const patience = 2

// allFinished reports whether all ranks have exited 0 without being told to stop.
func allFinished(in situation) bool { return in.roll.AllFinished() }

// succeed ends a job all of whose ranks have exited 0 without being told to stop.
func succeed(in situation) *move {
	if !allFinished(in) {
		return nil
	}
	return end(in, cluster.Succeeded, reason.Of(reason.New(reason.EveryRankExited)))
}

// allGone reports whether nothing of a halted generation is left. Its last
// checkpoint has been committed by then: that rule comes first.
func allGone(in situation) bool {
	if len(in.roll) > 0 && !in.roll.AllGone() {
		return false
	}
	return len(awaited(in)) == len(in.world().Members)
}

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
	s := requeued(in)
	if len(s.Excluded) <= len(in.state().Excluded) {
		return nil
	}
	return recordPhase(in, "exclude", s)
}

// giveUpSize lets a job go on in larger worlds only, where one of this size ran out of
// memory: no restart would mend that, and none is charged. Where the job may have no
// larger world it is an ordinary failure. One that ran out while it was halted has been
// granted its next world before that was known: it is asked about anew if that is too small.
func giveUpSize(in situation) *move {
	size := in.world().Size()
	if !outOfMemory(in) || len(in.sizes) == 0 {
		return nil
	}
	out, why := size, in.gen.Halt.Value.Why
	if !charged(in) {
		if out = tooSmall(in); in.target.Workers() == 0 || in.target.Workers() > out {
			return nil
		}
		why = haltedWhy(in)
	} else if in.sizes[len(in.sizes)-1] <= size {
		return nil
	}
	s := requeued(in)
	s.OutOfMemory, s.Pinned = out, false
	next := "more"
	if out < size {
		next = "no fewer"
	}
	s.Reason = bounded(in, why.And(reason.New(reason.OutOfMemoryGrows, "n", size, "with", next)))
	m := recordPhase(in, "give-up-size", s)
	m.grant = &granting{void: true}
	return m
}

// giveUpBatch lets a job go on with its smallest batch, where it ran out of memory with a larger one that its
// owner allows: no restart would mend that, and none is charged. One that ran out while it was halted has
// perhaps been granted such a batch again before that was known: then it is asked about anew.
func giveUpBatch(in situation) *move {
	most := smallerBatch(in)
	if most == 0 || !charged(in) && (in.target.Workers() == 0 || in.target.BatchSize <= most) {
		return nil
	}
	s := requeued(in)
	s.BatchLimit, s.Pinned = most, false
	s.Reason = bounded(in, haltedWhy(in).And(
		reason.New(reason.OutOfMemoryBatch, "batch", in.world().BatchSize, "n", in.world().Size(), "most", most)))
	m := recordPhase(in, "give-up-batch", s)
	m.grant = &granting{void: true}
	return m
}

// haltedWhy is why the newest generation was halted, and what failed in the course of it.
func haltedWhy(in situation) reason.Reason {
	why := in.gen.Halt.Value.Why
	if first, failed := firstFailure(in); failed && !why.Includes(first.said()) {
		why = why.And(reason.New(reason.WhileHalting).About(reason.Of(first.said())))
	}
	return why
}

// backOffUnformed makes a job wait of which several generations in a row did not form.
func backOffUnformed(in situation) *move {
	if neverRan(in) < patience {
		return nil
	}
	return backOff(in, failuresOf(in.state()), neverRan(in)-patience, in.gen.Halt.Value.Why)
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

// stopped adds to the reason for which a job was stopped what its last save did not keep.
func stopped(in situation, why reason.Reason) reason.Reason {
	if so := in.state().Reason; so.Begins(why) {
		why = so // whom the halt's deadline has killed, too
	}
	if begun, known := stepsBegun(in); known && begun > in.Committed.Value.Step {
		since := "its last checkpoint"
		if !in.Committed.Exists() {
			since = "the beginning: it never saved"
		}
		why = why.And(reason.New(reason.LostSteps, "n", begun-in.Committed.Value.Step, "since", since))
	}
	if first, failed := firstFailure(in); failed && !why.Includes(first.said()) {
		why = why.And(first.said())
	}
	return why
}

// requeued is the state of a job that goes back to the queue from a halt.
func requeued(in situation) record.State {
	s := withExclusions(in, remember(in, next(in, cluster.Queued, in.gen.Halt.Value.Why)))
	if shouldPin(in) {
		s.Pinned = true
		s.Reason = s.Reason.And(reason.New(reason.SavedNothing))
	}
	return s
}
