package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/record"
)

// account tells what the newest generation's start has cost, part by part. Nodes
// tell by their own clocks when something happened there, which may be hours off:
// their moments are moved to where they must have been by the leader's.
func account(in situation) record.Rescale {
	plan := in.gen.Plan.Value
	r := record.Rescale{
		Generation: in.number(), From: plan.From, To: plan.World.Size(), Why: plan.Why, At: plan.At, ResumeStep: -1,
	}
	if plan.Resume != nil {
		r.ResumeStep = plan.Resume.Step
	}
	if r.From > 0 && r.From != r.To {
		r.Predicted = in.Speed.Value.PredictedGain(r.From, r.To)
	}
	var execed time.Time
	for _, m := range plan.World.Members {
		at := acks(in, m.Node).Started.Value.ExecedAt
		if execed.IsZero() || !at.IsZero() && at.Before(execed) {
			execed = at
		}
	}
	r.StartS = seconds(plan.At, moved(execed, execed, execed, span{plan.At, in.now}))
	if in.number() > 1 {
		accountBefore(in, &r)
	}
	r.OwnS = r.SignalS + r.CommitS + r.StartS
	return r
}

// accountBefore adds what the generation before has cost.
func accountBefore(in situation, r *record.Rescale) {
	g := in.number() - 1
	gen := in.Generation(g)
	halting := span{to: r.At}
	if h := gen.Halt; h.Exists() && h.Value.Save {
		halting.from = h.Value.At
	} else if h.Exists() { // workers that failed were gone before it
		halting.from = h.Value.At.Add(-noticed)
	}
	var told, gone time.Time
	step, known := int64(-1), false
	for _, m := range gen.Plan.Value.World.Members {
		node := in.node(m.Node)
		acks := node.Ack(in.ID, g, gen.Plan.Value.World.Nonce)
		s := acks.Stopped.Value
		told = later(told, moved(s.SignalledAt, s.SignalledAt, s.ExitedAt, halting))
		gone = later(gone, moved(s.ExitedAt, s.SignalledAt, s.ExitedAt, halting))
		if h := acks.Held; h.Exists() && h.Value.SDK {
			step, known = max(step, h.Value.Begun), true
		}
		if p, ok := node.Reported(in.ID, g, gen.Plan.Value.World.Nonce); ok {
			step, known = max(step, p.Step), true
		}
	}
	saved := max(0, r.ResumeStep)
	if s := in.state(); s.Rewound == g { // its owner gave up what came later: that was saved
		saved = max(saved, s.RewoundFrom)
	}
	r.LostSteps = -1
	if !in.Rescales[g].Exists() || !known && usesModule(in) {
		r.LostSteps = 0 // it never ran, or not long enough to begin a step
		// Found damaged by a generation that resumed there, a checkpoint is lost with all that came after the one before.
		if before := gen.Plan.Value.Resume; before != nil && before.Step > saved {
			r.LostSteps = before.Step - saved
		}
	} else if known {
		r.LostSteps = max(0, step-saved)
	}
	if r.From == 0 {
		return // it waited in between: that is not what a rescale costs
	}
	if gen.Halt.Exists() {
		r.SignalS = seconds(gen.Halt.Value.At, told)
	}
	r.SaveS = seconds(told, gone)
	fenced := time.Time{}
	for _, f := range gen.Fences {
		fenced = later(fenced, f.Value.At)
	}
	if gone.IsZero() { // no worker was left that could have exited
		gone = gen.Halt.Value.At
	}
	r.WaitS = seconds(gone, fenced)
	r.CommitS = seconds(later(gone, fenced), r.At)
}

// noticed is how long after a failure its halt is decided at most, unless the
// leader could not be told.
const noticed = time.Minute

// span is what lies between two moments of the leader's clock; zero = not known.
type span struct{ from, to time.Time }

// moved is a moment of a node's clock on the leader's. first and last, of the same
// clock, are known to lie within: if they do not, they are all moved by the same,
// as little as brings them there. A moment that is zero stays so.
func moved(at, first, last time.Time, within span) time.Time {
	if at.IsZero() {
		return at
	}
	if first.IsZero() {
		first = last
	}
	by := time.Duration(0)
	switch {
	case !within.to.IsZero() && last.After(within.to):
		by = within.to.Sub(last)
	case !within.from.IsZero() && first.Before(within.from):
		by = within.from.Sub(first)
	}
	at = at.Add(by)
	if !within.from.IsZero() && at.Before(within.from) {
		return within.from
	}
	if !within.to.IsZero() && at.After(within.to) {
		return within.to
	}
	return at
}

// seconds is the time between two moments that were both recorded; clocks of
// different nodes may disagree, so it is never negative.
func seconds(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from).Seconds())
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
