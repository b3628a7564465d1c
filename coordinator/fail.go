package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// haltFailed halts a generation in which something failed: the others cannot go on.
func haltFailed(in situation) *move {
	first, ok := firstFailure(in)
	if !ok {
		return nil
	}
	return halt(in, order{verb: "halt", why: reason.Of(first.said()), event: failedEvent(in.job, first), also: func(s record.State) record.State {
		if first.failed.Kind == record.WorkerFailed {
			s.Failure = &first.failed
		}
		return withExclusions(in, s)
	}})
}

// withExclusions is the job's next state with every node that refused this generation
// excluded, for good or until what it failed of has passed.
func withExclusions(in situation, s record.State) record.State {
	if was := in.state(); was.Phase == cluster.Running && in.now.Sub(was.Since) >= ranWell {
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

// fail ends a generation that failed: with a wait before the next, or for good. One that ran
// out of memory at the job's largest size would do so again: the job ends at once, and no
// restart is charged.
func fail(in situation) *move {
	if !charged(in) {
		return nil
	}
	restarts, most := in.state().Restarts+1, in.Spec.Value.MaxRestarts
	why := in.gen.Halt.Value.Why
	if outOfMemory(in) {
		why = why.And(reason.New(reason.OutOfMemory, "n", in.world().Size()))
		if !hasFitted(in) {
			return end(in, cluster.Failed, why)
		}
	}
	if restarts > most {
		return end(in, cluster.Failed, why.And(reason.New(reason.GaveUpRestarts, "most", most)))
	}
	again := why.And(reason.New(reason.Restart, "n", restarts, "most", most))
	begun, further := gotFurther(in)
	after := failures{restarts: restarts, step: max(in.state().FailedStep, begun)}
	switch {
	case !further:
		after.inVain = in.state().FailedInVain + 1
		if after.step > 0 {
			again = why.And(reason.New(reason.RestartInVain, "n", restarts, "most", most, "step", after.step))
		}
		return backOff(in, after, after.inVain-1, again)
	case outOfMemory(in), in.now.Sub(in.gen.Plan.Value.At) < in.cfg.Timing.BackoffFirst:
		return backOff(in, after, 0, again)
	}
	atOnce := why.And(reason.New(reason.RestartAtOnce, "n", restarts, "most", most, "step", begun))
	if m := startAfter(in, after, in.world().Size(), atOnce); m != nil && m.sends() {
		return m
	}
	return backOff(in, after, 0, again)
}

// gotFurther reports whether the newest generation has trained beyond where it began and
// beyond where the job failed last, and to which step it came, -1 if nothing says so. Then
// it is the world that has failed, not the script, and another begins at once: a
// script that fails where it failed before would do so again. One that ran for less than the
// first wait waits as well, whatever it says, and that bounds how fast it all repeats. See ADR 49.
func gotFurther(in situation) (step int64, further bool) {
	step, known := stepsBegun(in)
	if c := in.Committed; c.Exists() && c.Value.Generation == in.number() {
		step, known = max(step, c.Value.Step), true
	}
	before := in.state().FailedStep
	if r := in.gen.Plan.Value.Resume; r != nil {
		before = max(before, r.Step)
	}
	return step, known && step > before
}

// backOff makes the job wait; the wait doubles with each of n failures before.
func backOff(in situation, after failures, n int, why reason.Reason) *move {
	s := after.countedIn(next(in, cluster.Backoff, why))
	s.Next = in.now.Add(doubled(in.cfg.Timing.BackoffFirst, in.cfg.Timing.BackoffMost, n))
	return recordPhase(in, "backoff", s)
}

// retry ends a wait: the job starts if it may, or stands in the queue again.
func retry(in situation) *move {
	if at := retryAt(in); in.clock.Before(at) {
		in.wake(at)
		return nil
	}
	why := reason.Of(reason.New(reason.RestartOf).About(in.state().Reason.Until(reason.StartsAgain)))
	m := start(in, 0, why)
	if m != nil && m.sends() {
		return m
	}
	return recordPhase(in, "queue", next(in, cluster.Queued, why)).after(m)
}
