package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Promised deadlines are kept by one plan, record.Promises: how many devices each of
// their jobs has in which slot of time. A policy that promises gives them those
// (allocator.Promising), in full questions at each slot's end and right after the plan
// has changed. The plan changes when a deadline is admitted (deadline.go), and when
// review finds that what is promised can no longer be had as planned. See ADR 46.

// promised returns the entry of the plan that the job's devices come from; false if it has none.
func promised(in situation) (*allocator.Promise, bool) {
	if in.cfg.PromiseSizes == nil {
		return nil, false
	}
	p := entryOf(in.mirror.Promised.Value, in.ID, in.now)
	return p, p != nil
}

// entryOf is what a plan has for a job from now on; nil = nothing.
func entryOf(plan record.Promises, id cluster.JobID, now time.Time) *allocator.Promise {
	p, ok := plan.Standing(id)
	if !ok {
		return nil
	}
	slot, left := plan.At(now)
	return &allocator.Promise{Due: p.Due, Profile: p.Profile.After(slot), First: left, Slot: time.Duration(plan.Slot)}
}

// promising reports whether any job was promised a deadline that can still be kept.
func promising(in situation) bool {
	if in.cfg.PromiseSizes == nil {
		return false
	}
	for id := range in.mirror.Promised.Value.Jobs {
		if _, ok := in.mirror.Promised.Value.Standing(id); ok {
			return true
		}
	}
	return false
}

// slotDue is when the next full question is due for the sake of what is promised, on
// the leader's clock: at the end of the slot in which the last one was asked.
func slotDue(in situation, last time.Time) time.Time {
	plan := in.mirror.Promised.Value
	now, left := plan.At(in.now)
	if asked, _ := plan.At(in.now.Add(-in.clock.Sub(last))); asked < now {
		return in.clock
	}
	return in.clock.Add(left)
}
