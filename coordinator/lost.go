package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/rendezvous"
)

// declaredDown reports whether an operator's word that nothing runs on the node is true
// still: since it was given the node has not been in the cluster, which it would
// have told itself.
func declaredDown(v *record.NodeView) bool {
	return v.Cordon.Value.Down && !v.Alive.Exists() && record.Newest(v.Told).Mod < v.Cordon.Mod
}

func lostAfter(in situation) time.Duration {
	if !in.rule(LostWait) {
		return 0
	}
	return in.cfg.Timing.LostAfter
}

// anyLost reports whether a node of the world is lost, or was and is back.
func anyLost(j *job) bool {
	return slices.ContainsFunc(j.roll, func(a rendezvous.Attendance) bool { return a.Lost })
}

func lostWhy(lost []cluster.NodeID) reason.Clause {
	if len(lost) == 1 {
		return reason.New(reason.NodeLost, "node", lost[0])
	}
	return reason.New(reason.NodesLost, "nodes", list(lost))
}
