package coordinator

import (
	"fmt"
	"maps"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A node that finds a checkpoint damaged may have a bad disk, or not the mount
// that the others have. So the first to say so is suspected with it:
//
//	n1: damaged ──► n1 excluded, suspect recorded ──► START elsewhere
//	    ├── damaged there, too ──► given up, n1 is back
//	    ├── sound there ──► goes on; n1 stays excluded, and the reason says why
//	    └── nowhere else to go, or not in time ──► n1 is back ──► damaged ──► given up by n1 alone

// witnesses counts the nodes that have found the committed checkpoint damaged.
func (c *Coordinator) witnesses(f formed) int {
	seen := map[cluster.NodeID]bool{}
	if s := f.state().Suspect; s != nil && s.Checkpoint == f.Committed.Value {
		seen[s.Node] = true
	}
	for _, m := range f.world().Members {
		failed := c.acks(f, m.Node).Failed
		if failed.Exists() && failed.Value.Kind == record.CheckpointDamaged {
			seen[m.Node] = true
		}
	}
	return len(seen)
}

// confirmWithin is how long a job waits for devices of another node to have its
// checkpoint looked at there, before it goes on at one node's word.
const confirmWithin = 5 * time.Minute

// confirmable reports whether a second node may yet look at the checkpoint that this one finds damaged.
func (c *Coordinator) confirmable(f formed, node cluster.NodeID) bool {
	s := f.state().Suspect
	if s == nil || s.Checkpoint != f.Committed.Value {
		return c.another(f, node)
	}
	end := c.since(wait{f.ID, secondWait}, s.At).Add(confirmWithin)
	c.wake(end)
	return c.clock.Before(end) && c.another(f, node)
}

// another reports whether the job could run, at its smallest, without the node.
func (c *Coordinator) another(f formed, node cluster.NodeID) bool {
	without := maps.Clone(c.barred(f.JobView))
	if without == nil {
		without = map[cluster.NodeID]string{}
	}
	without[node] = "it is asked about another"
	return c.placeable(f, without)
}

// suspect keeps the job from a node that finds its checkpoint damaged, until
// another has looked. False if that is recorded already.
func (c *Coordinator) suspect(f formed, found blame) bool {
	s := c.next(f.JobView, cluster.Halting, found.text()+"; another node is to look at it")
	if s.Excluded[found.node] != "" && s.Suspect != nil && s.Suspect.Checkpoint == f.Committed.Value {
		return false
	}
	if s.Excluded == nil {
		s.Excluded = map[cluster.NodeID]string{}
	}
	s.Excluded[found.node] = found.failed.Reason
	s.Suspect = &record.Suspect{Checkpoint: f.Committed.Value, Node: found.node, Reason: found.failed.Reason, At: c.now}
	return c.send(move{
		verb: "suspect", job: f.JobView,
		then: []record.Op{record.Put(record.StateKey(f.ID), s)},
		note: Note{Warn: true, Job: f.ID, Gen: f.number(), Node: found.node, Text: s.Reason},
	})
}

// unsuspected is the state without a suspicion: the node that had it may run the job again.
func unsuspected(s record.State) record.State {
	if s.Suspect != nil {
		delete(s.Excluded, s.Suspect.Node) // c.next has cloned it
		s.Suspect = nil
	}
	return s
}

// acquitted is the state of a job that has started from a checkpoint that one
// node found damaged: it is that node which is not sound.
func (c *Coordinator) acquitted(f formed, s record.State) record.State {
	if s.Suspect == nil {
		return s
	}
	node := s.Suspect.Node
	if s.Excluded[node] != "" {
		s.Excluded[node] = fmt.Sprintf("%s; %s reads it well: look at the disk and the mounts of %s",
			s.Suspect.Reason, f.world().Members[0].Node, node)
	}
	s.Suspect = nil
	return s
}

// noOther lets a job back to the node whose word about its checkpoint was to be
// confirmed elsewhere, when there is no elsewhere any more.
func (c *Coordinator) noOther(f formed) bool {
	s := f.state().Suspect
	if s == nil || f.state().Excluded[s.Node] == "" || c.confirmable(f, s.Node) || !c.mirror.Node(s.Node).Alive.Exists() {
		return false
	}
	back := c.next(f.JobView, cluster.Queued, fmt.Sprintf("no other node could look at its checkpoint: %s: %s", s.Node, s.Reason))
	delete(back.Excluded, s.Node)
	return c.put(f, "queue", back)
}
