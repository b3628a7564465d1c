package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

const (
	// unseenFor is how long a member waits for a checkpoint to become visible:
	// what network file systems remember of a directory is at most a minute old.
	unseenFor = time.Minute
	// readAtLeast is how fast a checkpoint is read before it is loaded, in bytes a second, on the slowest disk that is put up with.
	readAtLeast = 100 << 20
)

// haltReading is haltOverdue for a generation that resumes: its members verify
// the checkpoint before they start, which takes the time that it takes to read.
func haltReading(in situation) *move {
	plan := in.gen.Plan.Value
	if in.state().Phase != cluster.Starting || plan.Resume == nil {
		return nil
	}
	within := in.cfg.Timing.StartWithin + unseenFor + time.Duration(plan.Resume.Bytes/readAtLeast)*time.Second
	at := in.since(wait{in.ID, startWait}, plan.At)
	late := in.roll.Overdue(at, in.clock, within)
	if len(late) == 0 {
		in.wake(at.Add(within))
		return leave() // it is not overdue before
	}
	return halt(in, order{verb: "halt", why: reason.Of(reason.New(reason.NotRead, "within", within, "nodes", list(late)))})
}

// fallBack gives up the committed checkpoint once two members of generations
// that were to resume from it have found it damaged, or one where no other node
// could look at it. The newest older one of the history takes its place, and the
// next START resumes there. Nothing is charged.
func fallBack(in situation) *move {
	found, ok := damage(in)
	if !ok || !in.Committed.Exists() || in.Committed.Value != *in.gen.Plan.Value.Resume {
		return nil // nothing is damaged, or that is done
	}
	if in.rule(TwoWitnesses) && witnesses(in) < 2 {
		// One node's disk or memory may be to blame, and a good checkpoint is not given up for that.
		if until, may := confirmable(in, found.node); may {
			in.wake(until)
			return suspect(in, found)
		}
	}
	bad := in.Committed.Value
	h := in.gen.Halt.Value
	if !h.Why.Includes(found.said()) {
		h.Why = h.Why.And(found.said())
	}
	moved := record.Delete(record.CommittedKey(in.ID))
	if older, exists := olderThan(in, in.Committed.Value.Step); exists {
		moved = record.Put(record.CommittedKey(in.ID), older)
		h.Why = h.Why.And(reason.New(reason.FallingBack, "step", older.Step))
	}
	m := move{
		verb: "fall-back", job: in.JobView,
		ifs: []record.Compare{record.Unchanged(record.CommittedKey(in.ID), in.Committed.Mod)},
		then: []record.Op{
			record.Put(record.StateKey(in.ID), withoutSuspect(next(in, cluster.Halting, h.Why))),
			record.Put(record.HaltKey(in.ID, in.number()), h),
			record.Put(record.BadCheckpointKey(in.ID, bad.Step), record.BadCheckpoint{Checkpoint: bad, Reason: reason.Of(found.said()), At: in.now}),
			moved,
		},
		note:  Note{Warn: true, Job: in.ID, Gen: in.number(), Why: h.Why},
		event: record.Event{Kind: record.JobFellBack, Job: in.ID, Generation: in.number(), Node: found.node, Why: h.Why},
	}
	if in.Checkpoints[bad.Step].Exists() {
		m.then = append(m.then, record.Delete(record.CheckpointKey(in.ID, bad.Step)))
	}
	return &m
}

// damage returns what a member found wrong with the checkpoint that the newest
// generation was to resume from; of several members the first in rank order.
func damage(in situation) (failure, bool) {
	if in.gen.Plan.Value.Resume == nil {
		return failure{}, false
	}
	for _, m := range in.world().Members {
		failed := acks(in, m.Node).Failed
		if failed.Exists() && failed.Value.Kind == record.CheckpointDamaged {
			return failure{m.Node, failed.Value, failed.Create}, true
		}
	}
	return failure{}, false
}

// olderThan returns the newest checkpoint of the history before a step. Bad ones have left the history.
func olderThan(in situation, before int64) (record.Checkpoint, bool) {
	var newest record.Checkpoint
	found := false
	for _, step := range slices.Sorted(maps.Keys(in.Checkpoints)) {
		if step < before {
			newest, found = in.Checkpoints[step].Value, true
		}
	}
	return newest, found
}

// noUsableCheckpoint reports whether the job has lost every checkpoint that it had, and its
// owner has not discarded them. To begin again at step 0 may throw days away that
// could still be saved: that is for the owner to decide.
func noUsableCheckpoint(j *job) bool {
	_, lost := lastLost(j)
	return lost && !j.Committed.Exists()
}

// lastLost returns the checkpoint that was given up last, of those that the owner has not discarded.
func lastLost(j *job) (last record.BadCheckpoint, ok bool) {
	for _, step := range slices.Sorted(maps.Keys(j.Bad)) {
		b := j.Bad[step].Value
		if b.Generation <= j.Wanted.Value.DiscardedUpTo {
			continue
		}
		if !ok || cmp.Or(b.At.Compare(last.At), cmp.Compare(b.Generation, last.Generation)) >= 0 {
			last, ok = b, true
		}
	}
	return last, ok
}

// noUsableCheckpointWhy names what was lost last.
func noUsableCheckpointWhy(j *job) reason.Reason {
	last, _ := lastLost(j)
	return last.Reason.And(reason.New(reason.NoUsableCheckpoint, "job", j.ID, "step", last.Step))
}
