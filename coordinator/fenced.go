package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// fencedBackoff is how many times the wait doubles for a third fenced generation:
// more than that many are not looked at.
const fencedBackoff = 3

// backOffFenced makes a job wait of which several generations in a row were killed
// soon, because a node lost touch or what hosts the workers there died: that charges
// the job nothing, so nothing else bounds how fast it repeats. See ADR 14.
func backOffFenced(in situation) *move {
	n := fencedSoon(in)
	if n < patience {
		return nil
	}
	return backOff(in, failuresOf(in.state()), fencedBackoff*(n-patience), in.gen.Halt.Value.Why)
}

// fencedSoon counts the newest generations in a row that were fenced within the time
// after which a generation has run well, of those that are kept.
func fencedSoon(in situation) int {
	n, end := 0, in.now
	for g := in.number(); g > 0 && g+keptGenerations > in.number(); g-- {
		plan := in.Generation(g).Plan.Value
		if end.Sub(plan.At) >= ranWell || !slices.ContainsFunc(plan.World.Members, func(m cluster.Member) bool {
			failed := in.node(m.Node).Ack(in.ID, g, plan.World.Nonce).Failed
			return failed.Exists() && failed.Value.Kind == record.NodeFenced
		}) {
			break
		}
		n, end = n+1, plan.At
	}
	return n
}
