package coordinator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// resume queues a job again that its owner has stopped, that has failed, or that
// is held. It goes on from the last committed checkpoint, unless another is asked
// for: then all later ones are given up, by name, because its owner says so.
func (c *Coordinator) resume(r request, v *record.JobView) {
	f := c.formed(v)
	if why := c.unresumable(r, f); why != "" {
		c.drop(r, v, why)
		return
	}
	by := r.Value.Owner.User
	s := c.next(v, cluster.Queued, "resumed by "+by)
	s.Restarts, s.Pinned, s.Excluded, s.Failure = 0, false, nil, nil
	w := v.Wanted.Value
	w.Run, w.By, w.At = true, by, r.Value.At
	m := move{
		verb: "resume", job: v, name: v.Spec.Value.Name, note: phaseNote(v, s),
		ifs:  []record.Compare{record.Unchanged(r.key, r.Mod), record.Unchanged(record.CommittedKey(v.ID), v.Committed.Mod)},
		then: []record.Op{record.Delete(r.key)},
	}
	if from := r.Value.From; from != nil {
		m.then = append(m.then, c.rewind(f, *from, by)...)
		s.Rewound = f.number()
		if *from == record.FromStart {
			w.Forsaken = f.number()
		}
	}
	m.then = append(m.then, record.Put(record.StateKey(v.ID), s), record.Put(record.WantedKey(v.ID), w))
	c.send(m)
	c.round.full, c.round.idle = nil, nil // the question will perhaps be one that was asked before it stopped
}

// unresumable says why a job cannot be resumed as asked, empty if it can.
func (c *Coordinator) unresumable(r request, f formed) string {
	if why := c.forbidden(r, f.JobView, "resume"); why != "" {
		return why
	}
	from, phase := r.Value.From, f.state().Phase
	switch {
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
// all that are later. One that was given up before comes back: its owner has
// mended what made it unreadable, and if not it is found damaged again.
func (c *Coordinator) rewind(f formed, step int64, by string) []record.Op {
	committed := record.Delete(record.CommittedKey(f.ID))
	var ops []record.Op
	if bad := f.Bad[step]; bad.Exists() {
		committed = record.Put(record.CommittedKey(f.ID), bad.Value.Checkpoint)
		ops = append(ops, record.Delete(record.BadCheckpointKey(f.ID, step)), record.Put(record.CheckpointKey(f.ID, step), bad.Value.Checkpoint))
	} else if kept := f.Checkpoints[step]; kept.Exists() {
		committed = record.Put(record.CommittedKey(f.ID), kept.Value)
	}
	for _, s := range slices.Sorted(maps.Keys(f.Checkpoints)) {
		if s <= step {
			continue
		}
		ops = append(ops, record.Delete(record.CheckpointKey(f.ID, s)), record.Put(record.BadCheckpointKey(f.ID, s), record.BadCheckpoint{
			Checkpoint: f.Checkpoints[s].Value, Reason: "given up by " + by, At: c.now,
		}))
	}
	return append(ops, committed)
}
