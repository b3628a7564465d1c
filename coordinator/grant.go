package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// grantOps makes a job's grants those of the world, and no others: what the
// world gains comes before what it has left. The zero world has none.
func grantOps(v *view, j *job, w cluster.World) []record.Op {
	var ops []record.Op
	for _, m := range w.Members {
		if !v.grantedTo(m, j.ID, w.Generation) {
			ops = append(ops, record.Put(record.GrantKey(m.Node, j.ID), record.Grant{Generation: w.Generation, Devices: m.Devices}))
		}
	}
	for _, n := range v.nodes().granted[j.ID] {
		if _, _, stays := w.Member(n); !stays && (w.Generation != j.number() || !v.unplanned(j, n)) {
			ops = append(ops, record.Delete(record.GrantKey(n, j.ID)))
		}
	}
	return ops
}

// misgranted are the operations that make the job's grants those of its live world, and
// no others; of a world whose plan a hand has removed nothing is let go of.
func (v *view) misgranted(j *job) []record.Op {
	switch {
	case !j.state().Phase.Active():
		return grantOps(v, j, cluster.World{})
	case !j.gen.Plan.Exists():
		return nil
	}
	return grantOps(v, j, j.world())
}

// unplanned reports whether a node holds a grant of the job's newest generation
// although no plan names the node, and may have processes of it: the plan was
// deleted or changed by hand, and only the grants still tell who took part. What such
// a node acknowledges counts whatever its nonce, as no plan says which is right.
func (v *view) unplanned(j *job, n cluster.NodeID) bool {
	node := v.node(n)
	if _, _, planned := j.world().Member(n); planned || node.Grants[j.ID].Value.Generation != j.number() {
		return false
	}
	all := node.Acks[record.JobGen{Job: j.ID, Generation: j.number()}]
	return (all == nil || !all.Stopped.Exists()) && !j.gen.Fences[n].Exists()
}

// awaited are the members of the job's newest generation, and all other nodes that
// are unplanned in it: no life of theirs is known, so that only an operator's word
// or their own says that nothing is left there.
func awaited(in situation) []cluster.Member {
	all := in.world().Members
	for _, n := range in.nodes().granted[in.ID] {
		if in.unplanned(in.job, n) {
			all = append(slices.Clip(all), cluster.Member{Node: n, AliveRev: unknownLife})
		}
	}
	return all
}

// unknownLife is of no node.
const unknownLife = -1

// regrant writes what did not fit into the transaction that changed the job's
// world: grants of further members, so that they learn of their generation, even
// of one that is halted again, which they have to acknowledge; and the end of old
// ones. The state record is compared, so none of it lands in a later world. See ADR 20.
func regrant(in situation) *move {
	if len(in.regrants) == 0 || !in.rule(GrantRest) {
		return nil
	}
	return &move{verb: "grant", job: in.JobView, then: fit(in, slices.Clone(in.regrants))}
}

// roomForOps is what the operations of one transaction may take of etcd's bytes; the
// rest is for its compares and an event.
const roomForOps = record.DefaultMaxTxnBytes / 4 * 3

// fit cuts a job's operations to what one transaction takes beside an event and guard's. The
// first is always among them.
func fit(in situation, ops []record.Op) []record.Op {
	room := in.cfg.MaxTxnOps
	if in.small(in.ID) { // etcd may take fewer than it is said to
		room = min(room, LeastTxnOps)
	}
	room-- // for what guard adds
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

// release deletes everything that lets a generation run: its permit, and the job's grants but for those of the world given.
func release(in situation, w cluster.World) []record.Op {
	var ops []record.Op
	if in.gen.Permit.Exists() {
		ops = append(ops, record.Delete(record.PermitKey(in.ID, in.number())))
	}
	return append(ops, grantOps(in.view, in.job, w)...)
}
