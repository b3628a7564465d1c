package coordinator

import (
	"fmt"

	"github.com/bellows-ml/bellows/record"
)

// removeNode takes a node that is gone for good out of the cluster. What says
// that it belongs to it goes at once; what it has said of jobs stays until none
// of them can look it up any more (see sweep). It is only done when nothing of a
// generation can be left there: afterwards the node cannot be given up any more,
// and a job would wait for it for ever. See ADR 31.
func removeNode(in situation, r request) *move {
	n := r.Value.Node
	v := in.node(n)
	left := in.mirror.Unfinished(n)
	if !in.rule(RemoveOver) {
		left = nil
	}
	switch {
	case !v.Belongs(): // it was removed before
		return drop(in, r, "")
	case v.Alive.Exists():
		return drop(in, r, fmt.Sprintf("remove %s: it is alive", n))
	case len(left) > 0:
		return drop(in, r, fmt.Sprintf("remove %s: generation %d of %s is not over there", n, left[0].Generation, left[0].Job))
	case in.claiming() && in.rule(RemoveOver): // a START that may name it has yet to land, or not: at the next Step
		return nil
	}
	return &move{
		verb: "remove",
		ifs:  []record.Compare{record.Unchanged(r.key, r.Mod), record.Absent(record.AliveKey(n))},
		then: []record.Op{
			record.Delete(r.key), record.Delete(record.InventoryKey(n)), record.Delete(record.FencingKey(n)),
			record.Delete(record.CordonKey(n)), record.DeletePrefix(record.NodeEventsPrefix(n)),
		},
		note:  Note{Node: n, Text: string(record.NodeRemoved) + " by " + r.Value.Owner.User},
		event: record.Event{Kind: record.NodeRemoved, Node: n, By: r.Value.Owner.User},
	}
}

// ungrantGone deletes a grant of a job whose records were deleted by hand, once its
// node has said that nothing of that generation is left there. Else nothing would
// ever free its devices.
func ungrantGone(in situation) []*move {
	if in.clusterBusy() {
		return nil
	}
	nodes := in.nodes()
	if !nodes.orphans {
		return nil
	}
	for _, n := range in.mirror.NodeIDs() {
		node, entry := in.node(n), nodes.entries[n]
		if entry == nil {
			continue // it has no grants
		}
		for _, job := range entry.jobs {
			v, grant := in.mirror.Job(job), node.Grants[job]
			said := node.Acks[record.JobGen{Job: job, Generation: grant.Value.Generation}]
			if v.Spec.Exists() || v.State.Exists() || said == nil || !said.Stopped.Exists() {
				continue
			}
			return []*move{{
				verb: "ungrant", then: []record.Op{record.Delete(record.GrantKey(n, job))},
				ifs:  []record.Compare{record.Unchanged(record.GrantKey(n, job), grant.Mod), record.Absent(record.StateKey(job))},
				note: Note{Warn: true, Job: job, Gen: grant.Value.Generation, Node: n, Text: "the job's records are gone, and nothing of it is left: its devices are free"},
			}}
		}
	}
	return nil
}

// sweep deletes what removed nodes have left, one node at a time: an agent
// deletes its own records of a generation that was collected, and these have
// none. Requests are carried out first, whichever node accepted them.
func sweep(in situation) []*move {
	if in.clusterBusy() {
		return nil
	}
	for _, n := range in.mirror.NodeIDs() {
		v := in.node(n)
		if v.Belongs() || v.Fencing.Exists() || len(v.Told)+len(v.Grants)+len(v.Next)+len(v.Requests) > 0 || in.mirror.Quoted(v) {
			continue
		}
		ops := []record.Op{record.Delete(record.ProgressKey(n)), record.Delete(record.AskedKey(n)), record.DeletePrefix(record.ReadyPrefix(n))}
		for _, said := range record.SaidPrefixes(n) {
			ops = append(ops, record.DeletePrefix(said))
		}
		return []*move{{
			verb: "sweep", then: ops,
			// An agent that is back writes only with its alive key, but for requests, and with those what it asked last.
			ifs: []record.Compare{record.Absent(record.AliveKey(n)), record.Unchanged(record.AskedKey(n), v.Asked.Mod)},
		}}
	}
	return nil
}
