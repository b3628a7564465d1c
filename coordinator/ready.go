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

// awaitsPrepared reports whether some nodes of the next world of a job that is to be rescaled are not ready yet, and
// have not said that they will not be; and until when the job may wait for them.
func awaitsPrepared(in situation) (until time.Time, awaits bool) {
	p, ok := in.prepared(in.job)
	if !ok || in.Spec.Value.ColdStart || in.job.fault != "" || in.target.Workers() == 0 {
		return time.Time{}, false
	}
	if !slices.ContainsFunc(in.target.Placements, func(at cluster.Placement) bool {
		next := record.Next{Generation: p.generation, Nonce: p.nonce, Workers: processes(in, at)}
		return prepares(in, at.Node) && !ready(in, at.Node, next)
	}) {
		return time.Time{}, false
	}
	return in.since(wait{in.ID, prepareWait}, in.gen.Plan.Value.At).Add(prepareWithin), true
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
