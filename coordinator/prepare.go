package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The next generation of a job is prepared while the present one trains, unless its owner
// wants cold starts: on the nodes of the present world, for crashes and shrinks, and on
// those of a world that is decided, before it is halted for that. Nothing of it is needed:
// START decides anew where the world is, and a node that has nothing prepared starts without.
// See ADR 53.

// prepare asks the nodes that the job's next generation is likely to have to prepare it, and no others.
func prepare(in situation) *move {
	wanted, known := toPrepare(in)
	if !known {
		return dropStale(in)
	}
	p, ok := in.prepared(in.job)
	if !ok {
		p = preparation{in.number() + 1, termNonce(in)}
	}
	return asks(in, wanted, p)
}

// unprepare has nothing prepared for a job that has no world.
func unprepare(in situation) *move { return asks(in, nil, preparation{}) }

// asks makes the records those of the preparation: of so many processes on each node. More may be wanted of a
// node that has begun, never fewer.
func asks(in situation, wanted map[cluster.NodeID]int, p preparation) *move {
	var ops []record.Op
	for _, n := range slices.Sorted(maps.Keys(wanted)) {
		next, have := record.Next{Generation: p.generation, Nonce: p.nonce, Workers: wanted[n], At: in.now}, in.node(n).Next[in.ID]
		same := have.Exists() && have.Value.Generation == p.generation && have.Value.Nonce == p.nonce
		if same && have.Value.Workers >= next.Workers {
			continue
		}
		ops = append(ops, record.Put(record.NextKey(n, in.ID), next))
		if ready := in.node(n).Ready[in.ID]; !same && ready.Exists() && ready.Value.For(next) && !ready.Value.Begun { // from before it was lost
			ops = append(ops, record.Delete(record.ReadyKey(n, in.ID)))
		}
	}
	// A node ends what it is not asked for any more: a plan that counted on it would meet its end.
	m := &move{verb: "prepare", job: in.JobView, spends: len(wanted) == 0}
	if len(ops) > 0 {
		m.prepares = &p
	}
	var dropped []cluster.NodeID
	for _, n := range slices.Sorted(maps.Keys(in.view.next[in.ID])) {
		if wanted[n] == 0 {
			dropped = append(dropped, n)
		}
	}
	ifs, deletes := withdraw(in, dropped)
	if len(ops)+len(deletes) == 0 {
		return nil
	}
	m.ifs, m.then = ifs, fit(in, append(ops, deletes...))
	return m
}

// toPrepare are the nodes that are to prepare the job's next generation, and how many processes each; false where
// what was asked for stands: a generation that is halted or starts is about to use it.
func toPrepare(in situation) (map[cluster.NodeID]int, bool) {
	if in.Spec.Value.ColdStart || in.unwanted() || in.paused().Exists() || unforkable(in) {
		return nil, len(in.view.next[in.ID]) > 0
	}
	if in.state().Phase != cluster.Running {
		return nil, false
	}
	all := map[cluster.NodeID]int{}
	for _, m := range in.world().Members {
		if prepares(in, m.Node) {
			all[m.Node] = m.Processes()
		}
	}
	begun := false
	if len(all) > 0 { // else nothing is waited for
		at := spareAt(in)
		in.wake(at)
		begun = !in.clock.Before(at)
	}
	if !begun {
		clear(all)
	}
	_, again, resized := rescaling(in)
	in.wake(again)
	if resized {
		for _, at := range in.target.Placements {
			all[at.Node] = max(all[at.Node], processes(in, at))
		}
	}
	refused := refusedBy(in)
	maps.DeleteFunc(all, func(n cluster.NodeID, _ int) bool {
		_, no := refused[n]
		return no || !prepares(in, n) || in.node(n).Cordon.Exists()
	})
	return all, begun || resized
}

// sparePays is how many times as long as its start took a generation trains before the next one
// is prepared for the case of a crash: to prepare it takes about as much of a processor as a
// start, which is then a small part of what the job has had, and a job that ends before
// never pays it.
const sparePays = 10

// dropStale deletes what nodes were asked for of the generation that runs. All of its world know their plan by
// now, and none else was asked when it started: nothing can begin any more that is not a part of it.
func dropStale(in situation) *move {
	var ops []record.Op
	for _, n := range slices.Sorted(maps.Keys(in.view.next[in.ID])) {
		if in.state().Phase == cluster.Running && in.node(n).Next[in.ID].Value.Generation <= in.number() {
			ops = append(ops, record.Delete(record.NextKey(n, in.ID)))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return &move{verb: "prepare", job: in.JobView, then: fit(in, ops)}
}

// spareAt is from when on the job has trained for so long that a start from nothing is worth avoiding, in case it
// crashes. While it is not under way yet: when to look again.
func spareAt(in situation) time.Time {
	if at := underWayAt(in); in.clock.Before(at) {
		return at
	}
	planned := in.gen.Plan.Value.At
	begun := in.since(wait{in.ID, spareWait}, planned)
	return begun.Add(sparePays * begun.Sub(in.since(wait{in.ID, startWait}, planned)))
}

// unforkable reports whether a node has found that no launcher can fork workers of the job's command.
func unforkable(in situation) bool {
	return slices.ContainsFunc(in.world().Members, func(m cluster.Member) bool {
		return acks(in, m.Node).Started.Value.Unforkable != ""
	})
}

// unprepareGone deletes what nodes were asked to prepare of jobs whose records were deleted by hand.
func unprepareGone(in situation) []*move {
	if in.clusterBusy() {
		return nil
	}
	for _, job := range slices.Sorted(maps.Keys(in.view.next)) {
		if v := in.mirror.Job(job); v.Spec.Exists() || v.State.Exists() {
			continue
		}
		var ops []record.Op
		for _, n := range slices.Sorted(maps.Keys(in.view.next[job])) {
			ops = append(ops, record.Delete(record.NextKey(n, job)))
		}
		return []*move{{
			verb: "unprepare", then: ops[:min(len(ops), LeastTxnOps/2)], ifs: []record.Compare{record.Absent(record.StateKey(job))},
			note: Note{Warn: true, Job: job, Text: "the job's records are gone: nothing of it is prepared any more"},
		}}
	}
	return nil
}
