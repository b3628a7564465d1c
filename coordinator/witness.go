package coordinator

import (
	"fmt"
	"maps"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// A node that finds a checkpoint damaged may have a bad disk, or not the mount
// that the others have. So the first to say so is suspected with it (ADR 22):
//
//	n1: damaged ──► n1 excluded, suspect recorded ──► START elsewhere
//	    ├── damaged there, too ──► given up, n1 is back
//	    ├── sound there ──► goes on; n1 stays excluded, and the reason says why
//	    └── nowhere else to go, or not in time ──► n1 is back ──► damaged ──► given up by n1 alone

// witnesses counts the nodes that have found the committed checkpoint damaged.
func witnesses(in situation) int {
	seen := map[cluster.NodeID]bool{}
	if s := in.state().Suspect; suspects(s, in.Committed.Value) {
		seen[s.Node] = true
	}
	for _, m := range in.world().Members {
		failed := acks(in, m.Node).Failed
		if failed.Exists() && failed.Value.Kind == record.CheckpointDamaged {
			seen[m.Node] = true
		}
	}
	return len(seen)
}

// confirmWithin is how long a job waits for devices of another node to have its
// checkpoint looked at there, before it goes on at one node's word.
const confirmWithin = 5 * time.Minute

// confirmable reports whether a second node may yet look at the checkpoint that this one finds damaged, and until when: zero if
// that wait has not begun.
func confirmable(in situation, node cluster.NodeID) (until time.Time, may bool) {
	s := in.state().Suspect
	if !suspects(s, in.Committed.Value) {
		return time.Time{}, another(in, node)
	}
	until = in.since(wait{in.ID, secondWait}, s.At).Add(confirmWithin)
	return until, in.clock.Before(until) && another(in, node)
}

// another reports whether the job could run, at its smallest, without the node.
func another(in situation, node cluster.NodeID) bool {
	without := maps.Clone(refusedBy(in))
	if without == nil {
		without = map[cluster.NodeID]string{}
	}
	without[node] = "it is asked about another"
	return placeable(in, without)
}

// suspects reports whether a suspicion is about the checkpoint. Texts in it may
// have been cut to the length of a record, so it is known by what names it for good.
func suspects(s *record.Suspect, c record.Checkpoint) bool {
	return s != nil && s.Checkpoint.Generation == c.Generation && s.Checkpoint.Step == c.Step && s.Checkpoint.ManifestSHA256 == c.ManifestSHA256
}

// suspect keeps the job from a node that finds its checkpoint damaged, until
// another has looked. Nil if that is recorded already.
func suspect(in situation, found failure) *move {
	s := next(in, cluster.Halting, reason.Of(found.said(), reason.New(reason.VerifyElsewhere)))
	if _, excluded := s.Excluded[found.node]; excluded && suspects(s.Suspect, in.Committed.Value) {
		return nil
	}
	if s.Excluded == nil {
		s.Excluded = map[cluster.NodeID]string{}
	}
	s.Excluded[found.node] = found.failed.Reason
	s.Suspect = &record.Suspect{Checkpoint: in.Committed.Value, Node: found.node, Reason: found.failed.Reason, At: in.now}
	return &move{
		verb: "suspect", job: in.JobView,
		then: []record.Op{record.Put(record.StateKey(in.ID), s)},
		note: Note{Warn: true, Job: in.ID, Gen: in.number(), Node: found.node, Why: s.Reason},
	}
}

// withoutSuspect is the state without a suspicion: the node that had it may run the job again.
func withoutSuspect(s record.State) record.State {
	if s.Suspect != nil {
		delete(s.Excluded, s.Suspect.Node) // next has cloned it
		s.Suspect = nil
	}
	return s
}

// clearSuspect is the state of a job that has started from a checkpoint that one
// node found damaged: it is that node which is not sound.
func clearSuspect(in situation, s record.State) record.State {
	if s.Suspect == nil {
		return s
	}
	node := s.Suspect.Node
	if _, excluded := s.Excluded[node]; excluded {
		s.Excluded[node] = fmt.Sprintf("%s; %s reads it well: look at the disk and the mounts of %s",
			s.Suspect.Reason, in.world().Members[0].Node, node)
	}
	s.Suspect = nil
	return s
}

// readmitSuspect lets a job back to the node whose word about its checkpoint was to be
// confirmed elsewhere, when there is no elsewhere any more.
func readmitSuspect(in situation) *move {
	s := in.state().Suspect
	if s == nil {
		return nil
	}
	if _, excluded := in.state().Excluded[s.Node]; !excluded || !in.node(s.Node).Alive.Exists() {
		return nil
	}
	if until, may := confirmable(in, s.Node); may {
		in.wake(until)
		return nil
	}
	back := next(in, cluster.Queued, reason.Of(reason.New(reason.NoOtherNodeVerifies, "node", s.Node, "said", s.Reason)))
	delete(back.Excluded, s.Node)
	return recordPhase(in, "queue", back)
}
