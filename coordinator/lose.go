package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/rendezvous"
)

// watchNodes starts the wait for each node whose alive key is missing, and ends that of each which is back.
//
// What a fence needs is that the life which the member was planned with ended at
// least that long ago: its workers die by the last renewal of its lease, and a
// life that has ended is never renewed. So the wait counts from when this term
// first knew that the life was over, and ends when the node is seen alive.
// Neither a listing nor a life that came and went unseen, between two listings or
// within one batch of changes, restarts it: no plan names a life that this leader
// did not see, a later life renews the workers of none before, and one that has
// given its word has by that taken back the word of those before (see fences).
func (c *Coordinator) watchNodes() {
	for _, id := range c.mirror.NodeIDs() {
		_, waiting := c.absent[id]
		switch alive := c.mirror.Node(id).Alive.Exists(); {
		case alive:
			delete(c.absent, id)
		case !waiting:
			c.absent[id] = c.clock
		}
	}
}

// haltLost halts a generation one of whose nodes is lost, or back in another
// life: the survivors may save what they can while the wait for the node runs.
func (c *Coordinator) haltLost(f formed) bool {
	lost := f.roll.Lost()
	if len(lost) == 0 {
		return false
	}
	return c.halt(f, order{verb: "halt", why: lostWhy(lost), save: true, within: c.lostAfter()})
}

// hurry shortens a halt in which a node is lost: a save that needs all ranks
// will never be whole, and nothing can start before the node is fenced anyway.
func (c *Coordinator) hurry(f formed) bool {
	lost := f.roll.Lost()
	if len(lost) == 0 || !f.gen.Permit.Exists() || !f.gen.Halt.Exists() || c.saveTime(f) <= c.lostAfter() {
		return false
	}
	s := c.next(f.JobView, cluster.Halting, f.state().Reason+"; "+lostWhy(lost))
	return c.send(move{
		verb: "hurry", job: f.JobView,
		then: []record.Op{
			record.Put(record.StateKey(f.ID), s),
			record.Put(record.HaltKey(f.ID, f.number()), c.shortened(f, c.lostAfter())),
		},
		note: Note{Job: f.ID, Gen: f.number(), Text: lostWhy(lost)},
	})
}

// fence gives up a member whose node has been absent for the whole wait.
func (c *Coordinator) fence(f formed) bool {
	for _, m := range f.world().Members {
		since, absent := c.absent[m.Node]
		acks := c.acks(f, m.Node)
		if !absent || c.alone(m.Node) || !c.fences(m) || acks.Stopped.Exists() || f.gen.Fences[m.Node].Exists() {
			continue
		}
		waited := c.clock.Sub(since)
		if waited < c.lostAfter() {
			c.wake(since.Add(c.lostAfter()))
			continue
		}
		var ifs []record.Compare
		if c.rule(AliveAbsent) {
			ifs = append(ifs, record.Absent(record.AliveKey(m.Node)))
		}
		if word := c.mirror.Node(m.Node).Fencing; c.rule(WordStands) {
			ifs = append(ifs, record.Unchanged(record.FencingKey(m.Node), word.Mod))
		}
		return c.send(move{
			verb: "fence", job: f.JobView, ifs: ifs,
			then: []record.Op{record.Put(record.FenceKey(f.ID, f.number(), m.Node), record.Fence{
				AliveRev: m.AliveRev, WaitedMS: waited.Milliseconds(), At: c.now,
			})},
			note: Note{
				Warn: true, Job: f.ID, Gen: f.number(), Node: m.Node,
				Text: fmt.Sprintf("node %s was absent for %v: fenced", m.Node, waited.Round(time.Millisecond)),
			},
			event: record.Event{
				Kind: record.NodeGivenUp, Job: f.ID, Generation: f.number(), Node: m.Node,
				Why: fmt.Sprintf("absent for %v: its workers are dead for sure", waited.Round(time.Millisecond)),
			},
		})
	}
	return false
}

// fences reports whether a member's workers are known to die when its lease is
// not renewed, or are dead by an operator's word.
func (c *Coordinator) fences(m cluster.Member) bool {
	v := c.mirror.Node(m.Node)
	return v.Fencing.Value.AliveRev == m.AliveRev || down(v) || !c.rule(FencingKnown)
}

// down reports whether an operator's word that nothing runs on the node is true
// still: since it was given the node has not been in the cluster, which it would
// have told itself.
func down(v *record.NodeView) bool {
	return v.Cordon.Value.Down && !v.Alive.Exists() && record.Newest(v.Told).Mod < v.Cordon.Mod
}

// unfenced tells the owner of a job what it waits for when a member is lost that
// cannot be given up.
func (c *Coordinator) unfenced(f formed) bool {
	for _, m := range f.world().Members {
		since, absent := c.absent[m.Node]
		acks := c.acks(f, m.Node)
		if !absent || c.alone(m.Node) || c.fences(m) || acks.Stopped.Exists() || f.gen.Fences[m.Node].Exists() {
			continue
		}
		if c.clock.Sub(since) < c.lostAfter() {
			c.wake(since.Add(c.lostAfter()))
			continue
		}
		reason := fmt.Sprintf("%s; %s did not say that its workers end without it (it was alone in the cluster, or has been back in another life since), so they may still run: "+
			"the job goes on when it is back, or, once it is certain that it is switched off, after 'bellows drain %s --down'",
			record.Cut(f.gen.Halt.Value.Why, record.MaxReason/2), m.Node, m.Node)
		reason = c.worded(f.ID, reason)
		if strings.HasPrefix(f.state().Reason, reason) { // a kill has added to it
			return false
		}
		return c.send(move{
			verb: "unfenced", job: f.JobView,
			then: []record.Op{record.Put(record.StateKey(f.ID), c.next(f.JobView, cluster.Halting, reason))},
			note: Note{Warn: true, Job: f.ID, Gen: f.number(), Node: m.Node, Text: reason},
		})
	}
	return false
}

func (c *Coordinator) lostAfter() time.Duration {
	if !c.rule(LostWait) {
		return 0
	}
	return c.cfg.Timing.LostAfter
}

// lostAny reports whether a node of the world is lost, or was and is back.
func lostAny(f formed) bool {
	return slices.ContainsFunc(f.roll, func(a rendezvous.Attendance) bool { return a.Lost })
}

func lostWhy(lost []cluster.NodeID) string {
	if len(lost) == 1 {
		return fmt.Sprintf("node %s lost", lost[0])
	}
	return "nodes " + list(lost) + " lost"
}
