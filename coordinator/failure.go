package coordinator

import (
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
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

func (f failure) text() string {
	f.failed.Reason = record.Cut(f.failed.Reason, record.MaxReason/2) // it is part of others
	switch f.failed.Kind {
	case record.NodeRefused:
		return fmt.Sprintf("%s cannot run it: %s", f.node, f.failed.Reason)
	case record.PortTaken:
		return fmt.Sprintf("rendezvous port taken on %s: %s", f.node, f.failed.Reason)
	case record.DeviceBusy:
		return fmt.Sprintf("%s cannot run it now: %s", f.node, f.failed.Reason)
	case record.NodeFenced:
		return fmt.Sprintf("node %s: %s", f.node, f.failed.Reason)
	case record.CheckpointDamaged:
		return fmt.Sprintf("%s (seen on %s)", f.failed.Reason, f.node)
	case record.NoSpace:
		return fmt.Sprintf("%s has no room: %s", f.node, f.failed.Reason)
	case record.Transient:
		return fmt.Sprintf("%s cannot run it now: %s", f.node, f.failed.Reason)
	case record.WorkerFailed:
	}
	if f.failed.Rank < 0 {
		return fmt.Sprintf("failed on %s: %s", f.node, f.failed.Reason)
	}
	return fmt.Sprintf("rank %d failed on %s: %s", f.failed.Rank, f.node, f.failed.Reason)
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

// restartAfter begins the reason of a start that follows a wait, also where it has to be decided anew.
const restartAfter = "restart after: "

// neverRan counts the newest generations in a row that never ran as a gang: their
// rescale was never accounted for. What hinders them may hinder the next. See ADR 14.
func neverRan(in situation) int {
	n := 0
	for g := in.number(); g > 0 && n < 16 && !in.Rescales[g].Exists(); g-- {
		n++
	}
	return n
}
