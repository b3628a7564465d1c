package coordinator

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// haltSpent halts a job that has been running for as long as it may. It saves
// first, as if its owner had stopped it.
func (c *Coordinator) haltSpent(f formed) bool {
	if !f.Spent(c.now) {
		if at, limited := f.LimitAt(); limited {
			c.wake(at)
		}
		return false
	}
	return c.halt(f, order{verb: "halt", why: spentWhy(f), save: true, within: time.Duration(f.Spec.Value.HaltTimeout)})
}

// spentIdle ends a job that has no workers, and has been running for as long as it may.
func (c *Coordinator) spentIdle(f formed) bool {
	return f.Spent(c.now) && c.end(f, cluster.Stopped, spentWhy(f))
}

func spentWhy(f formed) string {
	return fmt.Sprintf("time limit of %s reached", f.Scaled().TimeLimit)
}
