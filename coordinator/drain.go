package coordinator

import (
	"cmp"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// drain cordons a node and asks what runs there to save and go elsewhere; the
// next decision finds its devices unfit and moves their jobs. Who may ask is the
// agent's to check, which knows its operator.
func drain(in situation, r request) *move {
	n := r.Value.Node
	v := in.node(n)
	if !v.Belongs() {
		return drop(in, r, "drain: no such node")
	}
	// Asked again without a reason, the one that is known stays; and what is down
	// stays down, until it is there: then no word counts that it is not.
	isDown := !v.Alive.Exists() && (r.Value.Down || declaredDown(v))
	m := cordon(r, record.NodeDrained, record.Put(record.CordonKey(n), record.Cordon{
		Reason: cmp.Or(r.Value.Reason, v.Cordon.Value.Reason, "asked for by "+r.Value.Owner.User),
		By:     r.Value.Owner.User, At: r.Value.At, Drain: true, Down: isDown,
	}))
	if isDown {
		m.ifs = append(m.ifs, record.Absent(record.AliveKey(n)))
	}
	return m
}

// undrain gives a node back, whatever it was cordoned for.
func undrain(in situation, r request) *move {
	n := r.Value.Node
	if !in.node(n).Cordon.Exists() {
		return drop(in, r, "")
	}
	return cordon(r, record.NodeUndrained, record.Delete(record.CordonKey(n)))
}

// cordon carries out a request about a node. No job's state is compared: a START
// on its way to the node lands before or after, and the job moves on if before.
func cordon(r request, what record.EventKind, op record.Op) *move {
	return &move{
		verb:  "cordon",
		ifs:   []record.Compare{record.Unchanged(r.key, r.Mod)},
		then:  []record.Op{record.Delete(r.key), op},
		note:  Note{Node: r.Value.Node, Text: string(what) + " by " + r.Value.Owner.User},
		event: record.Event{Kind: what, Node: r.Value.Node, By: r.Value.Owner.User, Why: reason.Said(r.Value.Reason)},
	}
}
