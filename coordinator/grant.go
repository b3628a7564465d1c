package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// grantOps makes a job's grants those of the world, and no others: what the
// world gains comes before what it has left. The zero world has none.
func grantOps(in situation, w cluster.World) []record.Op {
	var ops []record.Op
	for _, m := range w.Members {
		if !in.grantedTo(m, in.ID, w.Generation) {
			ops = append(ops, record.Put(record.GrantKey(m.Node, in.ID), record.Grant{Generation: w.Generation, Devices: m.Devices}))
		}
	}
	for _, n := range in.nodes().granted[in.ID] {
		if _, _, stays := w.Member(n); !stays {
			ops = append(ops, record.Delete(record.GrantKey(n, in.ID)))
		}
	}
	return ops
}

// regrant writes what did not fit into the transaction that changed the job's
// world: grants of further members, so that they learn of their generation, even
// of one that is halted again, which they have to acknowledge; and the end of old
// ones. The state record is compared, so none of it lands in a later world. See ADR 20.
func regrant(in situation) *move {
	var w cluster.World
	if in.State.Value.Phase.Active() {
		if !in.gen.Plan.Exists() {
			return nil // only a hand can have removed it: nothing is let go of
		}
		w = in.gen.Plan.Value.World
	}
	ops := grantOps(in, w)
	if len(ops) == 0 || !in.rule(GrantRest) {
		return nil
	}
	return &move{verb: "grant", job: in.JobView, then: fit(in, ops)}
}

// roomForOps is what the operations of one transaction may take of etcd's bytes; the
// rest is for its compares and an event.
const roomForOps = record.DefaultMaxTxnBytes / 4 * 3

// fit cuts a job's operations to what one transaction takes beside an event. The
// first is always among them.
func fit(in situation, ops []record.Op) []record.Op {
	room := in.cfg.MaxTxnOps
	if in.small(in.ID) { // etcd may take fewer than it is said to
		room = min(room, LeastTxnOps)
	}
	if !in.cfg.Quiet {
		room--
	}
	bytes := 0
	for i, op := range ops[:min(len(ops), room)] {
		if bytes += op.Bytes(); bytes > roomForOps && i > 0 {
			return ops[:i]
		}
	}
	return ops[:min(len(ops), room)]
}
