package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// haltSpent halts a job that has been running for as long as it may. It saves
// first, as if its owner had stopped it.
func haltSpent(in situation) *move {
	if !in.Spent(in.now) {
		if at, limited := in.LimitAt(); limited {
			in.wake(at)
		}
		return nil
	}
	return halt(in, order{verb: "halt", why: spentWhy(in.job), save: true, within: time.Duration(in.Spec.Value.HaltTimeout)})
}

// stopSpentIdle ends a job that has no workers, and has been running for as long as it may.
func stopSpentIdle(in situation) *move {
	if !in.Spent(in.now) {
		return nil
	}
	return end(in, cluster.Stopped, spentWhy(in.job))
}

func spentWhy(j *job) reason.Reason {
	return reason.Of(reason.New(reason.TimeLimit, "limit", j.Scaled().TimeLimit))
}
