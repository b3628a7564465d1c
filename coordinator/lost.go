package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/rendezvous"
)

// declaredDown reports whether an operator's word that nothing runs on the node is true
// still: since it was given the node has not been in the cluster, which it would
// have told itself.
func declaredDown(v *record.NodeView) bool {
	return v.Cordon.Value.Down && !v.Alive.Exists() && record.Newest(v.Told).Mod < v.Cordon.Mod
}

func lostAfter(in situation) time.Duration {
	if !in.rule(LostWait) {
		return 0
	}
	return in.cfg.Timing.LostAfter
}

// anyLost reports whether a node of the world is lost, or was and is back.
func anyLost(j *job) bool {
	return slices.ContainsFunc(j.roll, func(a rendezvous.Attendance) bool { return a.Lost })
}

func lostWhy(lost []cluster.NodeID) reason.Clause {
	if len(lost) == 1 {
		return reason.New(reason.NodeLost, "node", lost[0])
	}
	return reason.New(reason.NodesLost, "nodes", list(lost))
}

// haltLost halts a generation one of whose nodes is lost, or back in another
// life: the survivors may save what they can while the wait for the node runs.
func haltLost(in situation) *move {
	lost := in.roll.Lost()
	if len(lost) == 0 {
		return nil
	}
	return halt(in, order{verb: "halt", why: reason.Of(lostWhy(lost)), save: true, within: lostAfter(in)})
}

// shortenForLoss shortens a halt in which a node is lost: a save that needs all ranks
// will never be whole, and nothing can start before the node is fenced anyway.
func shortenForLoss(in situation) *move {
	lost := in.roll.Lost()
	if len(lost) == 0 || !in.gen.Permit.Exists() || !in.gen.Halt.Exists() || saveTime(in) <= lostAfter(in) {
		return nil
	}
	s := next(in, cluster.Halting, in.state().Reason.And(lostWhy(lost)))
	return &move{
		verb: "shorten", job: in.JobView,
		then: []record.Op{
			record.Put(record.StateKey(in.ID), s),
			record.Put(record.HaltKey(in.ID, in.number()), shortened(in, lostAfter(in))),
		},
		note: Note{Job: in.ID, Gen: in.number(), Why: reason.Of(lostWhy(lost))},
	}
}

// fenceLost gives up a member whose node has been absent for the whole wait.
func fenceLost(in situation) *move {
	for _, m := range awaited(in) {
		since, absent := in.absentSince(m.Node)
		acks := acks(in, m.Node)
		if !absent || in.alone(m.Node) || !fencesItself(in, m) || acks.Stopped.Exists() || in.gen.Fences[m.Node].Exists() {
			continue
		}
		waited := in.clock.Sub(since)
		if waited < lostAfter(in) {
			in.wake(since.Add(lostAfter(in)))
			continue
		}
		return &move{
			verb: "fence", job: in.JobView, ifs: stillGone(in, m.Node),
			then: []record.Op{record.Put(record.FenceKey(in.ID, in.number(), m.Node), record.Fence{
				AliveRev: m.AliveRev, WaitedMS: waited.Milliseconds(), At: in.now,
			})},
			note: Note{
				Warn: true, Job: in.ID, Gen: in.number(), Node: m.Node,
				Text: fmt.Sprintf("node %s was absent for %v: fenced", m.Node, waited.Round(time.Millisecond)),
			},
			event: record.Event{
				Kind: record.NodeGivenUp, Job: in.ID, Generation: in.number(), Node: m.Node,
				Why: reason.Of(reason.New(reason.Fenced, "waited", waited.Round(time.Millisecond))),
			},
		}
	}
	return nil
}

// stillGone compares that a node is absent, and keeps to what it has promised, as it is known.
func stillGone(in situation, n cluster.NodeID) (ifs []record.Compare) {
	if in.rule(AliveAbsent) {
		ifs = append(ifs, record.Absent(record.AliveKey(n)))
	}
	if promise := in.node(n).Fencing; in.rule(PromiseStands) {
		ifs = append(ifs, record.Unchanged(record.FencingKey(n), promise.Mod))
	}
	return ifs
}

// fencesItself reports whether a member's workers are known to die when its lease is
// not renewed, or are dead by an operator's word.
func fencesItself(in situation, m cluster.Member) bool {
	v := in.node(m.Node)
	return m.AliveRev != 0 && v.Fencing.Value.AliveRev == m.AliveRev || declaredDown(v) || !in.rule(FencingKnown)
}

// reportUnfenced tells the owner of a job what it waits for when a member is lost that
// cannot be given up.
func reportUnfenced(in situation) *move {
	for _, m := range awaited(in) {
		since, absent := in.absentSince(m.Node)
		acks := acks(in, m.Node)
		if !absent || in.alone(m.Node) || fencesItself(in, m) || acks.Stopped.Exists() || in.gen.Fences[m.Node].Exists() {
			continue
		}
		if in.clock.Sub(since) < lostAfter(in) {
			in.wake(since.Add(lostAfter(in)))
			continue
		}
		runs := reason.New(reason.MayStillRun, "node", m.Node)
		why := bounded(in, in.gen.Halt.Value.Why.Cut(record.MaxReason/2).And(runs))
		if so := in.state().Reason; so.Includes(runs) || so.Begins(why) { // a kill has added to it; in a small etcd it may have been cut
			return nil
		}
		return &move{
			verb: "unfenced", job: in.JobView,
			then: []record.Op{record.Put(record.StateKey(in.ID), next(in, cluster.Halting, why))},
			note: Note{Warn: true, Job: in.ID, Gen: in.number(), Node: m.Node, Why: why},
		}
	}
	return nil
}
