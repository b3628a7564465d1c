package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/coordinator/promise"
)

// Promised deadlines are kept by one plan, record.Promises: how many devices each of
// their jobs has in which slot of time. A policy that promises gives them those
// (allocator.Promising), in full questions at each slot's end and right after the plan
// has changed. Package promise makes the plan: when a deadline is admitted, and when
// review finds that what is promised can no longer be had as planned. See ADR 46.

// promised returns the entry of the plan that the job's devices come from; nil if it has none.
func promised(in situation) *allocator.Promise {
	if in.cfg.PromiseSizes == nil {
		return nil
	}
	return promise.Entry(in.mirror.Promised.Value, in.ID, in.now)
}

// promising reports whether any job was promised a deadline that can still be kept.
func promising(in situation) bool {
	return in.cfg.PromiseSizes != nil && promise.Standing(in.mirror.Promised.Value)
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
