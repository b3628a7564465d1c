package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// warmWithin is for how long after its plan a failure may be its warm start's: longer than large
// models take to their first step. A script that reports no steps has perhaps trained by then.
const warmWithin = 10 * time.Minute

// startCold starts a generation again whose workers had been started ahead and failed before it reported a step. Perhaps
// that is what a cold start would not have done, so the next one uses nothing that was prepared, begins at once, and is not
// charged. If it fails as well, that is charged as ever.
func startCold(in situation) *move {
	if !failedWarm(in) || !in.rule(ColdAfterWarm) {
		return nil
	}
	why := in.gen.Halt.Value.Why
	after := failuresOf(in.state())
	after.cold = record.Reason(reason.New(reason.WarmFailed).About(why).String())
	m := startAfter(in, after, in.world().Size(), why)
	if m != nil && m.sends() {
		return m
	}
	if in.asking() && in.target.Workers() == 0 {
		return leave()
	}
	s := after.countedIn(requeued(in))
	s.Reason = bounded(in, s.Reason.And(reason.New(reason.StartsCold)))
	return recordPhase(in, "queue", s).after(m)
}

// failedWarm reports whether a worker that had been started ahead failed before the generation reported its first step.
// What ran out of memory would do so in any world of that size.
func failedWarm(in situation) bool {
	_, begun := stepsBegun(in)
	saved := in.Committed.Exists() && in.Committed.Value.Generation == in.number()
	if begun || saved || !charged(in) || outOfMemory(in) || in.now.Sub(in.gen.Plan.Value.At) > warmWithin {
		return false
	}
	return slices.ContainsFunc(in.world().Members, func(m cluster.Member) bool {
		said := acks(in, m.Node)
		return said.Started.Value.Warm && said.Failed.Exists() && said.Failed.Value.Kind == record.WorkerFailed
	})
}
