package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// Processes that run the script ahead, for a generation that has no plan yet, count as workers: a
// generation starts, and a job ends or goes back to the queue, when none of them is left but those
// that the generation itself begins with. The leader deletes what it has asked for, so that nothing more comes into
// being (see withdraw), and then waits until each node has deleted its record. A node that is lost is waited
// for as a member is. See ADR 53.

// parkedSoon is for how long such a wait is not worth telling: mostly it takes milliseconds.
const parkedSoon = time.Second

// afterParked returns a move as it is if nothing stands in its way that was prepared for the job, else
// what is done about that first.
func afterParked(in situation, m *move) *move {
	if m == nil || !m.sends() || m.forms == nil || !in.rule(ParkedOver) {
		return m
	}
	asked, left := parked(in, *m.forms)
	if len(asked)+len(left) == 0 {
		in.end(wait{in.ID, parkedWait})
		return m
	}
	before := dropNext(in, asked)
	if before == nil {
		before = tellParked(in, left)
	}
	if m.verb == startVerb { // what it has found out of its devices stands
		before.grant = m.grant
	}
	before.askAnew = m.askAnew
	return before
}

// parked are the nodes that are asked to prepare something of the job, and those on which processes of that may exist,
// but for what a world begins with and what belongs to the newest generation, of which acknowledgements speak. Sorted.
func parked(in situation, world cluster.World) (asked, left []cluster.NodeID) {
	of := func(w cluster.World, n cluster.NodeID, g cluster.Generation, nonce string) bool {
		_, _, member := w.Member(n)
		return member && w.Generation == g && w.Nonce == nonce
	}
	for _, n := range slices.Sorted(maps.Keys(in.view.next[in.ID])) {
		if next := in.node(n).Next[in.ID].Value; !of(world, n, next.Generation, next.Nonce) {
			asked = append(asked, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(in.view.begun[in.ID])) {
		said := in.node(n).Ready[in.ID].Value
		if !of(world, n, said.Generation, said.Nonce) && !of(in.world(), n, said.Generation, said.Nonce) {
			left = append(left, n)
		}
	}
	return asked, left
}

// dropNext deletes what nodes were asked to prepare, so that they end it; nil if there is nothing to delete. A plan may still
// count on what others have.
func dropNext(in situation, nodes []cluster.NodeID) *move {
	ifs, ops := withdraw(in, nodes)
	if len(ops) == 0 {
		return nil
	}
	ops = fit(in, ops)
	return &move{verb: "prepare", job: in.JobView, spends: len(ops) == len(in.view.next[in.ID]), ifs: ifs, then: ops}
}

// withdraw deletes the requests to prepare on these nodes. The transaction fails if a node has written its ready record
// since the leader read it. An agent writes that record only while the request exists, before it executes anything, so
// after this transaction no node can begin a preparation that the leader does not know of.
func withdraw(in situation, nodes []cluster.NodeID) (ifs []record.Compare, ops []record.Op) {
	for _, n := range nodes[:min(len(nodes), max(1, in.cfg.MaxTxnOps-addedCompares))] {
		ops = append(ops, record.Delete(record.NextKey(n, in.ID)))
		if !in.rule(ParkedKnown) {
			continue
		}
		key, said := record.ReadyKey(n, in.ID), in.node(n).Ready[in.ID]
		if said.Exists() {
			ifs = append(ifs, record.Unchanged(key, said.Mod))
		} else {
			ifs = append(ifs, record.Absent(key))
		}
	}
	return ifs, ops
}

// unprepareElsewhere ends what is prepared on nodes that are not in the world for which the job is halted, or of
// a job that ends, while the old world saves: else the start, or the end, would wait for it.
func unprepareElsewhere(in situation) *move {
	if in.target.Workers() == 0 && !in.unwanted() {
		return nil
	}
	var elsewhere []cluster.NodeID
	for _, n := range slices.Sorted(maps.Keys(in.view.next[in.ID])) {
		if in.unwanted() || !slices.ContainsFunc(in.target.Placements, func(at cluster.Placement) bool { return at.Node == n }) {
			elsewhere = append(elsewhere, n)
		}
	}
	return dropNext(in, elsewhere)
}

// tellParked waits, and says what for if that takes a while.
func tellParked(in situation, nodes []cluster.NodeID) *move {
	since := in.since(wait{in.ID, parkedWait}, in.gen.Plan.Value.At)
	if in.clock.Sub(since) < parkedSoon {
		in.wake(since.Add(parkedSoon))
		return &move{job: in.JobView}
	}
	var each []string
	for _, n := range nodes[:min(len(nodes), named)] {
		each = append(each, parkedOn(in, n))
	}
	if len(nodes) > named {
		each = append(each, units.Count(len(nodes)-named, "more node"))
	}
	waits := bounded(in, reason.Of(reason.New(reason.AwaitsParked, "said", strings.Join(each, "; "))))
	if waits.Equal(in.state().Waits) {
		return &move{job: in.JobView}
	}
	s := next(in, in.state().Phase, in.state().Reason)
	s.Next, s.Waits = in.state().Next, waits
	return &move{
		verb: "await-parked", job: in.JobView, then: []record.Op{record.Put(record.StateKey(in.ID), s)},
		note: Note{Job: in.ID, Gen: in.number(), Why: s.Why()},
	}
}

// parkedOn says what is waited for on a node.
func parkedOn(in situation, n cluster.NodeID) string {
	switch _, absent := in.absentSince(n); {
	case !absent:
		return fmt.Sprintf("on %s, whose agent ends it", n)
	case in.alone(n) || !fencesItself(in, parkedAt(n, in.node(n).Ready[in.ID].Value)):
		return fmt.Sprintf("on %s, which is lost and did not say that its processes end without it: the job goes on when it is back, "+
			"or, once it is certain that it is switched off, after 'bellows drain %s --down'", n, n)
	}
	return fmt.Sprintf("on %s, which is lost: its processes end within %s", n, lostAfter(in))
}

// parkedAt is the node as a member of a world would be with which what it has prepared began.
func parkedAt(n cluster.NodeID, said record.Ready) cluster.Member {
	return cluster.Member{Node: n, AliveRev: said.AliveRev}
}

// forgetParked deletes what a lost node has said to have prepared when its processes have certainly ended: they
// die by the deadline by which its workers do.
func forgetParked(in situation) []*move {
	if in.clusterBusy() {
		return nil
	}
	for _, job := range slices.Sorted(maps.Keys(in.view.begun)) {
		for _, n := range slices.Sorted(maps.Keys(in.view.begun[job])) {
			since, absent := in.absentSince(n)
			said := in.node(n).Ready[job]
			if !absent || in.alone(n) || !fencesItself(in, parkedAt(n, said.Value)) {
				continue
			}
			if in.clock.Sub(since) < lostAfter(in) {
				in.wake(since.Add(lostAfter(in)))
				continue
			}
			key := record.ReadyKey(n, job)
			return []*move{{
				verb: "forget-parked", then: []record.Op{record.Delete(key)}, ifs: append(stillGone(in, n), record.Unchanged(key, said.Mod)),
				note: Note{Job: job, Gen: said.Value.Generation, Node: n, Text: fmt.Sprintf("node %s is lost: what was prepared there has certainly ended", n)},
			}}
		}
	}
	return nil
}
