package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// failure is a member's failure.
type failure struct {
	node   cluster.NodeID
	failed record.Failed
	at     int64 // revision
}

// firstFailure returns the failure of the generation that was recorded first, for the others may follow from it.
func firstFailure(in situation) (first failure, ok bool) {
	for _, m := range in.roll {
		if !m.Failed {
			continue
		}
		if failed := acks(in, m.Node).Failed; !ok || failed.Create < first.at {
			first, ok = failure{m.Node, failed.Value, failed.Create}, true
		}
	}
	return first, ok
}

// said is what the failure says: the node's words are part of other reasons, so they are cut.
func (f failure) said() reason.Clause {
	said := record.Cut(f.failed.Reason, record.MaxReason/2)
	code := reason.WorkerFailed
	switch f.failed.Kind {
	case record.NodeRefused:
		code = reason.NodeRefused
	case record.PortTaken:
		code = reason.PortTaken
	case record.DeviceBusy:
		code = reason.NodeBusy
	case record.NodeFenced:
		code = reason.NodeFenced
	case record.CheckpointDamaged:
		code = reason.CheckpointDamaged
	case record.NoSpace:
		code = reason.NoRoom
	case record.Transient:
		code = reason.Transient
	case record.WorkerFailed:
		if f.failed.Rank >= 0 {
			return reason.New(reason.RankFailed, "rank", f.failed.Rank, "node", f.node, "said", said)
		}
	}
	return reason.New(code, "node", f.node, "said", said)
}

// failedFrom reports whether a worker of one of the kept generations failed that
// had resumed from the checkpoint: perhaps that was the reason, and a node that
// has verified it has to verify it again.
func failedFrom(in situation, from record.Checkpoint) bool {
	for g, v := range in.Generations {
		plan := v.Plan.Value
		if plan.Resume == nil || *plan.Resume != from {
			continue
		}
		for _, m := range plan.World.Members {
			failed := in.node(m.Node).Ack(in.ID, g, plan.World.Nonce).Failed
			if failed.Exists() && failed.Value.Kind == record.WorkerFailed {
				return true
			}
		}
	}
	return false
}

// neverRan counts the newest generations in a row that never ran as a gang: their
// rescale was never accounted for. What hinders them may hinder the next. See ADR 14.
func neverRan(in situation) int {
	n := 0
	for g := in.number(); g > 0 && n < 16 && !in.Rescales[g].Exists(); g-- {
		n++
	}
	return n
}

// failures is what a job's state counts of failures that were charged to it.
type failures struct {
	restarts int
	inVain   int    // as State.FailedInVain
	step     int64  // as State.FailedStep
	cold     string // as State.Cold: why the next start uses nothing that was prepared
}

// failuresOf is the count as the job's state has it.
func failuresOf(s record.State) failures {
	return failures{s.Restarts, s.FailedInVain, s.FailedStep, s.Cold}
}

// countedIn is the state with another count of failures.
func (f failures) countedIn(s record.State) record.State {
	s.Restarts, s.FailedInVain, s.FailedStep, s.Cold = f.restarts, f.inVain, f.step, f.cold
	return s
}
