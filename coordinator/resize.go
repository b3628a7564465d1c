package coordinator

import (
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// resizeReason is why a decision gives a job what it does: its owner's word where
// the size that it has is no longer one that it may have, for then the policy was
// asked as if the job waited.
func resizeReason(j *job, t target) string {
	if n := j.has.Workers(); n == 0 || slices.Contains(j.sizes, n) || j.Wanted.Value.ScaledBy == "" {
		return t.reason
	}
	bounds := j.Scaled()
	why := fmt.Sprintf("scaled by %s, now %s", j.Wanted.Value.ScaledBy, workersText(bounds.MinWorkers, bounds.MaxWorkers))
	if t.Workers() == 0 && t.reason != "" {
		why += "; " + t.reason
	}
	return why
}

// resizeWhy says in words what a decision makes of a job.
func resizeWhy(from, to int, reason string) string {
	var s string
	switch {
	case to == 0:
		s = "give up " + count(from, "device")
	case to > from:
		s = fmt.Sprintf("grow from %d to %s", from, count(to, "worker"))
	case to < from:
		s = fmt.Sprintf("shrink from %d to %s", from, count(to, "worker"))
	default:
		s = fmt.Sprintf("move %s to other devices", count(to, "worker"))
	}
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// rebatchWhy says in words that a decision gives a job another batch on the devices that it has.
func rebatchWhy(from, to int, reason string) string {
	s := fmt.Sprintf("change the batch from %d to %s", from, count(to, "sample"))
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// overtaken is why a halted job starts where it does: not for what it was halted
// for, if a later decision, or what has become of the devices, gives it another world.
func overtaken(in situation, a cluster.Allocation, why string) string {
	h := in.gen.Halt.Value
	if h.To == nil || *h.To == a.Workers() && *h.To != in.world().Size() {
		return why
	}
	before, to := in.world().Allocation(in.ID), a.Workers()
	now := resizeWhy(before.Workers(), to, in.target.reason)
	switch same := before.BatchSize == a.BatchSize && slices.EqualFunc(before.Placements, a.Placements, samePlacement); {
	case same:
		now = "start again with " + count(to, "worker")
	case *h.To == to:
		return why
	}
	return fmt.Sprintf("%s (halted to %s, which was overtaken)", now, why)
}
