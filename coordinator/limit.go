package coordinator

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
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

func spentWhy(j *job) string {
	return fmt.Sprintf("time limit of %s reached", j.Scaled().TimeLimit)
}
