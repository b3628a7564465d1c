package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// resizeReason is why a decision gives a job what it does: its owner's word where
// the size that it has is no longer one that it may have, for then the policy was
// asked as if the job waited.
func resizeReason(j *job, t target) reason.Reason {
	if n := j.has.Workers(); n == 0 || slices.Contains(j.sizes, n) || j.Wanted.Value.ScaledBy == "" {
		return policyWhy(t.reason)
	}
	bounds := j.Scaled()
	why := reason.Of(reason.New(reason.Scaled, "user", j.Wanted.Value.ScaledBy, "bounds", workersText(bounds.MinWorkers, bounds.MaxWorkers)))
	if t.Workers() == 0 {
		why = why.And(policyWhy(t.reason)...)
	}
	return why
}

// policyWhy is a policy's reason.
func policyWhy(said string) reason.Reason {
	if said == "" {
		return nil
	}
	return reason.Of(reason.New(reason.Policy, "said", said))
}

// resizeWhy says what a decision makes of a job.
func resizeWhy(from, to int, because reason.Reason) reason.Clause {
	code := reason.Move
	switch {
	case to == 0:
		code = reason.GiveUp
	case to > from:
		code = reason.Grow
	case to < from:
		code = reason.Shrink
	}
	return reason.New(code, "from", from, "to", to).About(because)
}

// rebatchWhy says that a decision gives a job another batch on the devices that it has.
func rebatchWhy(from, to int, because reason.Reason) reason.Clause {
	return reason.New(reason.Batch, "from", from, "to", to).About(because)
}

// overtaken is why a halted job starts where it does: not for what it was halted
// for, if a later decision, or what has become of the devices, gives it another world.
func overtaken(in situation, a cluster.Allocation, why reason.Reason) reason.Reason {
	h := in.gen.Halt.Value
	if h.To == nil || *h.To == a.Workers() && *h.To != in.world().Size() {
		return why
	}
	before, to := in.world().Allocation(in.ID), a.Workers()
	now := resizeWhy(before.Workers(), to, policyWhy(in.target.reason))
	switch same := before.BatchSize == a.BatchSize && slices.EqualFunc(before.Placements, a.Placements, samePlacement); {
	case same:
		now = reason.New(reason.StartAgain, "n", to)
	case *h.To == to:
		return why
	}
	return reason.Of(now, reason.New(reason.Overtaken).About(why))
}
