package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/speed"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// situation is what a rule looks at: one job, and all that surrounds it during one
// Step. Rules change nothing in it but waits, which remember when they were first
// asked for; everything else that follows is in the move that they answer with.
type situation struct {
	*view
	*job // nil where it is about the cluster
	*waits
	*decisions
	*transactions
	*preparations
	measures *speed.Measures
	cfg      *Config

	target  target        // what the last decision granted the job
	decided bool          // whether there was one
	blocked reason.Reason // why the job does not start, as a rule before has found out
}

// about is the same for another job.
func about(in situation, j *job) situation {
	in.job, in.blocked = j, nil
	in.target, in.decided = in.granted(j.ID)
	return in
}

// rule is one rule: a question about a situation, and what follows. It answers
// nil where it does not apply.
type rule struct {
	name   string
	answer func(situation) *move
}

// first returns what the first rule answers that applies, with what those before
// it have found out. Nil: none applies.
func first(in situation, rules []rule) *move {
	var found *move
	for _, r := range rules {
		m := r.answer(in)
		if m == nil {
			continue
		}
		m = m.after(found)
		if m.sends() || m.final {
			return m
		}
		found = m
		in.blocked = m.blocked
		if g := m.grant; g != nil {
			in.target, in.decided = target{}, g.to != nil
			if g.to != nil {
				in.target = *g.to
			}
		}
	}
	return found
}

// when tries rules where a question is answered with yes.
func when(applies func(situation) bool, rules []rule) func(situation) *move {
	return func(in situation) *move {
		if !applies(in) {
			return nil
		}
		m := first(in, rules)
		if m != nil {
			m.final = false // it was the last of these
		}
		return m
	}
}

// acks are what a node has acknowledged of the job's newest generation.
func acks(in situation, n cluster.NodeID) record.Acks { return in.view.acks(in.job, n) }

// refusedBy are the nodes on which the job must not start, and why.
func refusedBy(in situation) map[cluster.NodeID]string { return in.refusals(in.job).why }

// next is the job's state as it will be in another phase; everything that is not of the phase stays.
func next(in situation, phase cluster.Phase, why reason.Reason) record.State {
	return in.nextState(phase, bounded(in, why), in.now)
}

// bounded is a reason as it is recorded, so that what will be written can be
// compared with what is.
func bounded(in situation, why reason.Reason) reason.Reason {
	if in.small(in.ID) {
		return why.Cut(record.SmallReason)
	}
	return why.Cut(record.MaxReason)
}
