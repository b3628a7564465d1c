package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// resume queues a job again that its owner has stopped, that has failed, or that
// is held. It goes on from the last committed checkpoint, unless another is asked
// for: then all later ones are given up, by name, because its owner says so. Its
// restarts and its time limit begin anew.
func (c *Coordinator) resume(r request, v *record.JobView) {
	f := c.formed(v)
	if why := c.unresumable(r, f); why != "" {
		c.drop(r, v, why)
		return
	}
	from, by := r.Value.From, r.Value.Owner.User
	m := move{
		verb: "resume", job: v,
		ifs: []record.Compare{record.Unchanged(r.key, r.Mod), record.Unchanged(record.CommittedKey(v.ID), v.Committed.Mod)},
	}
	if from != nil {
		if later := laterThan(f, *from); len(later) > givenUpAtOnce {
			c.goBack(m, f, later[len(later)-givenUpAtOnce:])
			return
		}
		m.then = c.rewind(f, *from, by)
	}
	s := c.next(v, cluster.Queued, "resumed by "+by)
	s.Restarts, s.Pinned, s.Doubted, s.Excluded, s.Failure, s.Suspect, s.Ran = 0, false, true, nil, nil, nil, 0
	s.Retries, s.RoomWaits, s.Passing = 0, 0, nil
	w := v.Wanted.Value
	w.Run, w.Now, w.By, w.At, w.Request = true, false, by, r.Value.At, r.id
	w.TimeLimit = cmp.Or(r.Value.TimeLimit, w.TimeLimit)
	if from != nil {
		s = rewound(s, f)
		if *from == record.FromStart {
			w.Forsaken = f.number()
		}
	}
	m.then = append(m.then, record.Delete(r.key), record.Put(record.StateKey(v.ID), s), record.Put(record.WantedKey(v.ID), w))
	m.name, m.note = v.Spec.Value.Name, phaseNote(v, s)
	m.event = record.Event{Kind: record.JobResumed, Job: v.ID, Generation: s.Generation, By: by}
	if from != nil {
		m.event.Why = "from step " + strconv.FormatInt(max(0, *from), 10)
	}
	c.send(m)
	c.round.full, c.round.idle = nil, nil // the question will perhaps be one that was asked before it stopped
}

// givenUpAtOnce keeps a resume from far back within one transaction's operations.
const givenUpAtOnce = 3

// laterThan returns the steps of the history after this one, ascending.
func laterThan(f formed, step int64) []int64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.Checkpoints)), func(s int64) bool { return s <= step })
}

// goBack gives up the newest few of many checkpoints: the request stays, and is
// carried out when few are left.
func (c *Coordinator) goBack(m move, f formed, steps []int64) {
	s := rewound(f.state(), f)
	m.then = append(c.giveUp(f, steps, "its owner"), record.Put(record.StateKey(f.ID), s))
	if before, ok := c.olderThan(f, steps[0]); ok {
		m.then = append(m.then, record.Put(record.CommittedKey(f.ID), before))
	}
	c.send(m)
}

// rewound is the state of a job whose owner goes back: this time, or in part already.
func rewound(s record.State, f formed) record.State {
	if s.Rewound != f.number() {
		s.Rewound, s.RewoundFrom = f.number(), f.Committed.Value.Step
	}
	return s
}

// giveUp takes checkpoints out of the history.
func (c *Coordinator) giveUp(f formed, steps []int64, by string) []record.Op {
	var ops []record.Op
	for _, s := range steps {
		ops = append(ops, record.Delete(record.CheckpointKey(f.ID, s)), record.Put(record.BadCheckpointKey(f.ID, s), record.BadCheckpoint{
			Checkpoint: f.Checkpoints[s].Value, Reason: "given up by " + by, At: c.now,
		}))
	}
	return ops
}

// unresumable says why a job cannot be resumed as asked, empty if it can.
func (c *Coordinator) unresumable(r request, f formed) string {
	if why := c.forbidden(r, f.JobView, "resume"); why != "" {
		return why
	}
	if repeated(r, f.JobView) {
		return "resume: it was carried out before"
	}
	from, phase := r.Value.From, f.state().Phase
	switch {
	case r.Value.TimeLimit < 0:
		return fmt.Sprintf("resume: time limit %s: use a time above zero", r.Value.TimeLimit)
	case phase == cluster.Failed && f.number() == 0:
		return "resume: it was never admitted: submit it again"
	case phase != cluster.Held && phase != cluster.Stopped && phase != cluster.Failed:
		return fmt.Sprintf("resume: the job is %s", phase)
	case from == nil && bereft(f):
		return "resume: its checkpoints are damaged, and no other was chosen"
	case from != nil && *from != record.FromStart && !f.Checkpoints[*from].Exists() && !f.Bad[*from].Exists():
		return fmt.Sprintf("resume: there is no checkpoint of step %d", *from)
	}
	if other, used := c.nameUsed(f.Spec.Value.Name); used && other != f.ID {
		return fmt.Sprintf("resume: name %q is in use by %s", f.Spec.Value.Name, other)
	}
	return ""
}

// rewind makes the checkpoint of a step the committed one, or none, and gives up
// all that are later. One that is kept goes before one of the same step that was
// given up. Where there is only that, it comes back: its owner has mended what
// made it unreadable, and if not it is found damaged again.
func (c *Coordinator) rewind(f formed, step int64, by string) []record.Op {
	committed := record.Delete(record.CommittedKey(f.ID))
	var ops []record.Op
	if kept := f.Checkpoints[step]; kept.Exists() {
		committed = record.Put(record.CommittedKey(f.ID), kept.Value)
	} else if bad := f.Bad[step]; bad.Exists() {
		committed = record.Put(record.CommittedKey(f.ID), bad.Value.Checkpoint)
		ops = append(ops, record.Delete(record.BadCheckpointKey(f.ID, step)), record.Put(record.CheckpointKey(f.ID, step), bad.Value.Checkpoint))
	}
	ops = append(ops, c.giveUp(f, laterThan(f, step), by)...)
	return append(ops, committed)
}
