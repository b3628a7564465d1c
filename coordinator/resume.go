package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// resume queues a job again that its owner has stopped, that has failed, or that
// is held. It goes on from the last committed checkpoint, unless another is asked
// for: then all later ones are given up, by name, because its owner says so. Its
// restarts and its time limit begin anew. See ADR 21.
func resume(in situation, r request) *move {
	if why := unresumable(in, r); why != "" {
		return drop(in, r, why)
	}
	from, by := r.Value.From, r.Value.Owner.User
	m := &move{
		verb: "resume", job: in.JobView,
		ifs:     []record.Compare{record.Unchanged(r.key, r.Mod), record.Unchanged(record.CommittedKey(in.ID), in.Committed.Mod)},
		askAnew: true, // the question will perhaps be one that was asked before it stopped
	}
	if from != nil {
		if later := laterThan(in.job, *from); len(later) > givenUpAtOnce {
			return goBack(in, m, later[len(later)-givenUpAtOnce:])
		}
		m.then = rewind(in, *from, by)
	}
	s := next(in, cluster.Queued, reason.Of(reason.New(reason.Resumed, "user", by))).Anew()
	w := in.Wanted.Value
	w.Run, w.Now, w.By, w.At, w.Request = true, false, by, r.Value.At, r.id
	w.TimeLimit = cmp.Or(r.Value.TimeLimit, w.TimeLimit)
	if from != nil {
		s = rewound(s, in.job)
		if *from == record.FromStart {
			w.DiscardedUpTo = in.number()
		}
	}
	m.then = append(m.then, record.Delete(r.key), record.Put(record.StateKey(in.ID), s), record.Put(record.WantedKey(in.ID), w))
	m.name, m.note = in.Spec.Value.Name, phaseNote(in.JobView, s)
	m.event = record.Event{Kind: record.JobResumed, Job: in.ID, Generation: s.Generation, By: by}
	if from != nil {
		m.event.Why = reason.Of(reason.New(reason.FromStep, "step", max(0, *from)))
	}
	return m
}

// givenUpAtOnce keeps a resume from far back within one transaction's operations.
const givenUpAtOnce = 3

// laterThan returns the steps of the history after this one, ascending.
func laterThan(j *job, step int64) []int64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(j.Checkpoints)), func(s int64) bool { return s <= step })
}

// goBack gives up the newest few of many checkpoints: the request stays, and is
// carried out when few are left.
func goBack(in situation, m *move, steps []int64) *move {
	s := rewound(in.state(), in.job)
	m.askAnew = false
	m.then = append(giveUp(in, steps, "its owner"), record.Put(record.StateKey(in.ID), s))
	if before, ok := olderThan(in, steps[0]); ok {
		m.then = append(m.then, record.Put(record.CommittedKey(in.ID), before))
	}
	return m
}

// rewound is the state of a job whose owner goes back: this time, or in part already.
func rewound(s record.State, j *job) record.State {
	if s.Rewound != j.number() {
		s.Rewound, s.RewoundFrom = j.number(), j.Committed.Value.Step
	}
	return s
}

// giveUp takes checkpoints out of the history.
func giveUp(in situation, steps []int64, by string) []record.Op {
	var ops []record.Op
	for _, s := range steps {
		ops = append(ops, record.Delete(record.CheckpointKey(in.ID, s)), record.Put(record.BadCheckpointKey(in.ID, s), record.BadCheckpoint{
			Checkpoint: in.Checkpoints[s].Value, Reason: reason.Of(reason.New(reason.CheckpointGivenUpBy, "user", by)), At: in.now,
		}))
	}
	return ops
}

// unresumable says why a job cannot be resumed as asked, empty if it can.
func unresumable(in situation, r request) string {
	if why := forbidden(in, r, "resume"); why != "" {
		return why
	}
	if repeated(in, r) {
		return "resume: it was carried out before"
	}
	from, phase := r.Value.From, in.state().Phase
	switch {
	case r.Value.TimeLimit < 0 || r.Value.TimeLimit > cluster.MaxTime:
		return fmt.Sprintf("resume: time limit %s: use a time above zero, at most %s", r.Value.TimeLimit, cluster.MaxTime)
	case phase == cluster.Refused || phase == cluster.Failed && in.number() == 0:
		return "resume: it was never admitted: submit it again"
	case phase != cluster.Held && phase != cluster.Stopped && phase != cluster.Failed:
		return fmt.Sprintf("resume: the job is %s", phase)
	case from == nil && noUsableCheckpoint(in.job):
		return "resume: its checkpoints are damaged, and no other was chosen"
	case from != nil && *from != record.FromStart && !in.Checkpoints[*from].Exists() && !in.Bad[*from].Exists():
		return fmt.Sprintf("resume: there is no checkpoint of step %d", *from)
	}
	if other, used := nameUsed(in, in.Spec.Value.Name); used && other != in.ID {
		return fmt.Sprintf("resume: name %q is in use by %s", in.Spec.Value.Name, other)
	}
	return ""
}

// rewind makes the checkpoint of a step the committed one, or none, and gives up
// all that are later. One that is kept goes before one of the same step that was
// given up. Where there is only that, it comes back: its owner has mended what
// made it unreadable, and if not it is found damaged again.
func rewind(in situation, step int64, by string) []record.Op {
	committed := record.Delete(record.CommittedKey(in.ID))
	var ops []record.Op
	if kept := in.Checkpoints[step]; kept.Exists() {
		committed = record.Put(record.CommittedKey(in.ID), kept.Value)
	} else if bad := in.Bad[step]; bad.Exists() {
		committed = record.Put(record.CommittedKey(in.ID), bad.Value.Checkpoint)
		ops = append(ops, record.Delete(record.BadCheckpointKey(in.ID, step)), record.Put(record.CheckpointKey(in.ID, step), bad.Value.Checkpoint))
	}
	ops = append(ops, giveUp(in, laterThan(in.job, step), by)...)
	return append(ops, committed)
}
