package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/cluster"
)

// cause is why a question is due.
type cause uint8

const (
	notDue        cause = iota
	intervalOver        // the interval is over, or a slot of what is promised
	deviceLost          // a running job uses a device that it cannot keep
	planChanged         // what is promised has changed
	haltInherited       // a job halts, and only an answer tells what the term before has decided about it
	jobsChanged         // a job, or a node, came or went, and the policy answers promptly
	devicesIdle         // a job waits, and devices are idle: asked between two full questions
)

// ask returns the question that is due, nil if there is none.
func ask(in situation) *allocator.Input {
	d := in.decisions
	// 1. One question at a time. Without devices there is nothing to decide: who runs is lost, or alone.
	if d.asking() || len(in.live()) == 0 {
		return nil
	}
	// 2. Nothing was due, and nothing has changed since.
	if again, ok := d.noneDueUntil(in.view, in.clock); ok {
		in.wake(again)
		return nil
	}
	d.noneDue(in.view)
	// 3. A new term goes on in the rhythm of the one before.
	if d.last.IsZero() {
		d.last, d.inherited = lastAsked(in), true
	}
	why, due := dueFor(in)
	later := func() *allocator.Input {
		d.again = due
		in.wake(due)
		return nil
	}
	if why == notDue {
		return later()
	}
	q := question(in)
	if len(q.Jobs) == 0 {
		return nil
	}
	// 4. The same question would get the same answer, but from a policy that goes by time, or where something that was granted could not be had.
	full, plan := why != devicesIdle, in.mirror.Promised.Mod
	if same(d.full, &q) && (why != intervalOver || in.cfg.Timeless && !d.void) {
		if full {
			d.served = plan
		}
		if d.void || !in.cfg.Timeless || promising(in) { // work gets done without any record that changes the view
			return later()
		}
		return nil
	}
	// 5. A full question begins an interval; one between two of them is asked once.
	if full {
		d.last, d.full, d.void, d.inherited, d.served = in.clock, &q, false, false, plan
		d.asked = &q
		return &q
	}
	if same(d.idle, &q) {
		return later()
	}
	before := q
	before.Jobs = slices.Clone(q.Jobs)
	d.idle = &before
	q.Between = true
	applyDecided(in, &q)
	d.asked = &q
	return &q
}

// dueFor is why a question is due now, and when the next is if none is.
func dueFor(in situation) (why cause, due time.Time) {
	d, kept := in.decisions, promising(in)
	due = d.last.Add(in.cfg.Interval)
	if kept {
		if slot := slotDue(in, d.last); slot.Before(due) {
			due = slot
		}
	}
	switch {
	case !in.clock.Before(due):
		return intervalOver, due
	case urgent(in):
		return deviceLost, due
	case kept && d.served != in.mirror.Promised.Mod:
		return planChanged, due
	case d.inherited && haltsUndecided(in):
		return haltInherited, due
	}
	if in.cfg.Prompt && cameOrWent(in) {
		// Not at once: many jobs may come together, and each full question may rescale all others.
		if due = d.last.Add(in.cfg.Interval / lookahead.PromptPerInterval); !in.clock.Before(due) {
			return jobsChanged, due
		}
	}
	if waiting(in) && idle(in) {
		return devicesIdle, due
	}
	return notDue, due
}

// lastAsked is when the term before this one asked its last full question, on this
// leader's clock: a new leader goes on in the rhythm of the one before, so that
// elections rescale no job more often than the policy is meant to. What it cannot
// know it takes for an interval ago, and asks: which devices stay idle or which
// policy decides must not depend on a record that was never written. A clock that
// was ahead of this one's makes it wait for an interval at most.
func lastAsked(in situation) time.Time {
	last, ago := in.mirror.Decision.Value, in.cfg.Interval
	if last.Policy == in.cfg.Policy {
		ago = min(max(in.now.Sub(last.Asked), 0), in.cfg.Interval)
	}
	return in.clock.Add(-ago)
}

// haltsUndecided reports whether a job halts about which this term has decided
// nothing: the halt may be half of a rescale, whose other half only an answer tells.
func haltsUndecided(in situation) bool {
	return slices.ContainsFunc(in.jobs(), func(j *job) bool {
		of := about(in, j)
		return j.state().Phase == cluster.Halting && !of.decided && takesPart(of)
	})
}

// cameOrWent reports whether a job or a node has come, gone or changed in its
// devices since the last full question.
func cameOrWent(in situation) bool {
	last := in.decisions.full
	if last == nil || !slices.EqualFunc(last.Nodes, in.live(), sameNode) {
		return true
	}
	n := 0
	for _, j := range in.jobs() {
		if !takesPart(about(in, j)) {
			continue
		}
		n++
		v := allocator.JobView{ID: j.ID, SubmittedAt: j.Spec.Value.At}
		if _, there := slices.BinarySearchFunc(last.Jobs, v, bySubmission); !there {
			return true
		}
	}
	return n != len(last.Jobs)
}

// applyDecided puts sizes that were decided into the question, even if they are not carried
// out yet: a decision between two intervals must not undo them.
func applyDecided(in situation, q *allocator.Input) {
	for i, j := range q.Jobs {
		if t, ok := in.granted(j.ID); ok && t.Workers() > 0 && slices.Contains(j.Sizes, t.Workers()) {
			q.Jobs[i].Present, q.Jobs[i].Workers = t.Allocation, t.Workers()
		}
	}
}

// urgent reports whether a running job uses a device that it cannot keep.
func urgent(in situation) bool {
	return slices.ContainsFunc(in.jobs(), func(j *job) bool { return j.fault != "" && j.state().Phase == cluster.Running })
}

// waiting reports whether a job could use devices and was granted none.
func waiting(in situation) bool {
	return slices.ContainsFunc(in.jobs(), func(j *job) bool {
		of := about(in, j)
		return len(j.has.Placements) == 0 && of.target.Workers() == 0 && takesPart(of)
	})
}
