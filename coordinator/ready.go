package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// prepareWithin is how long a rescale waits for its nodes to be ready: large frameworks are
// imported from a network file system in tens of seconds. The old world trains on meanwhile.
const prepareWithin = 45 * time.Second

// prepares reports whether a node is there, and of a version that prepares generations.
func prepares(in situation, n cluster.NodeID) bool {
	alive := in.node(n).Alive
	return alive.Exists() && alive.Value.Prepares && (alive.Value.Nonces || in.cfg.Secret == "")
}

// awaitsPrepared reports whether a job that is to be rescaled trains on until the nodes of its
// next world are ready, or have said that they will not be, or have had the time for it.
func awaitsPrepared(in situation) bool {
	p, ok := in.prepared(in.job)
	if !ok || in.Spec.Value.ColdStart || in.job.fault != "" || in.target.Workers() == 0 {
		return false
	}
	if !slices.ContainsFunc(in.target.Placements, func(at cluster.Placement) bool {
		next := record.Next{Generation: p.generation, Nonce: p.nonce, Workers: processes(in, at)}
		return prepares(in, at.Node) && !ready(in, at.Node, next)
	}) {
		return false
	}
	end := in.since(wait{in.ID, prepareWait}, in.gen.Plan.Value.At).Add(prepareWithin)
	in.wake(end)
	return in.clock.Before(end)
}

// processes is how many workers of the job a placement has.
func processes(in situation, at cluster.Placement) int {
	if in.Spec.Value.PerNode {
		return min(1, len(at.Devices))
	}
	return len(at.Devices)
}

// ready reports whether a node has said that it has prepared what is asked for, or never will. That it was ready in
// an earlier life counts for nothing: what waited there may have ended with that.
func ready(in situation, n cluster.NodeID, next record.Next) bool {
	said, alive := in.node(n).Ready[in.ID], in.node(n).Alive
	return said.Exists() && said.Value.Of(next) && (said.Value.Cold != "" || !said.Value.Begun || said.Value.AliveRev == alive.Create)
}
