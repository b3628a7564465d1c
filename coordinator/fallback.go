package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
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
func (c *Coordinator) haltReading(f formed) bool {
	plan := f.gen.Plan.Value
	if f.state().Phase != cluster.Starting || plan.Resume == nil {
		return false
	}
	within := c.cfg.Timing.StartWithin + unseenFor + time.Duration(plan.Resume.Bytes/readAtLeast)*time.Second
	at := c.since(wait{f.ID, startWait}, plan.At)
	late := f.roll.Overdue(at, c.clock, within)
	if len(late) == 0 {
		c.wake(at.Add(within))
		return true // it is not overdue before
	}
	return c.halt(f, order{verb: "halt", why: fmt.Sprintf("not started within %v, with its checkpoint to be read: %s", within, list(late))})
}

// fallBack gives up the committed checkpoint once two members of generations
// that were to resume from it have found it damaged, or one where no other node
// could look at it. The newest older one of the history takes its place, and the
// next START resumes there. Nothing is charged.
func (c *Coordinator) fallBack(f formed) bool {
	found, ok := c.damage(f)
	if !ok || !f.Committed.Exists() || f.Committed.Value != *f.gen.Plan.Value.Resume {
		return false // nothing is damaged, or that is done
	}
	if c.rule(TwoWitnesses) && c.witnesses(f) < 2 && c.confirmable(f, found.node) {
		return c.suspect(f, found)
	}
	bad := f.Committed.Value
	h := f.gen.Halt.Value
	if !strings.Contains(h.Why, found.text()) {
		h.Why += "; " + found.text()
	}
	moved := record.Delete(record.CommittedKey(f.ID))
	if older, exists := c.olderThan(f, f.Committed.Value.Step); exists {
		moved = record.Put(record.CommittedKey(f.ID), older)
		h.Why += fmt.Sprintf("; falling back to step %d", older.Step)
	}
	m := move{
		verb: "fall-back", job: f.JobView,
		ifs: []record.Compare{record.Unchanged(record.CommittedKey(f.ID), f.Committed.Mod)},
		then: []record.Op{
			record.Put(record.StateKey(f.ID), unsuspected(c.next(f.JobView, cluster.Halting, h.Why))),
			record.Put(record.HaltKey(f.ID, f.number()), h),
			record.Put(record.BadCheckpointKey(f.ID, bad.Step), record.BadCheckpoint{Checkpoint: bad, Reason: found.text(), At: c.now}),
			moved,
		},
		note:  Note{Warn: true, Job: f.ID, Gen: f.number(), Text: h.Why},
		event: record.Event{Kind: record.JobFellBack, Job: f.ID, Generation: f.number(), Node: found.node, Why: h.Why},
	}
	if f.Checkpoints[bad.Step].Exists() {
		m.then = append(m.then, record.Delete(record.CheckpointKey(f.ID, bad.Step)))
	}
	return c.send(m)
}

// damage returns what a member found wrong with the checkpoint that the newest
// generation was to resume from; of several members the first in rank order.
func (c *Coordinator) damage(f formed) (blame, bool) {
	if f.gen.Plan.Value.Resume == nil {
		return blame{}, false
	}
	for _, m := range f.world().Members {
		failed := c.acks(f, m.Node).Failed
		if failed.Exists() && failed.Value.Kind == record.CheckpointDamaged {
			return blame{m.Node, failed.Value, failed.Create}, true
		}
	}
	return blame{}, false
}

// olderThan returns the newest checkpoint of the history before a step. Bad ones have left the history.
func (c *Coordinator) olderThan(f formed, before int64) (record.Checkpoint, bool) {
	var newest record.Checkpoint
	found := false
	for _, step := range slices.Sorted(maps.Keys(f.Checkpoints)) {
		if step < before {
			newest, found = f.Checkpoints[step].Value, true
		}
	}
	return newest, found
}

// bereft reports whether the job has lost every checkpoint that it had, and its
// owner has not forsaken them. To begin again at step 0 may throw days away that
// could still be saved: that is for the owner to decide.
func bereft(f formed) bool {
	_, lost := lostLast(f)
	return lost && !f.Committed.Exists()
}

// lostLast returns the checkpoint that was given up last, of those that the owner has not forsaken.
func lostLast(f formed) (last record.BadCheckpoint, ok bool) {
	for _, step := range slices.Sorted(maps.Keys(f.Bad)) {
		b := f.Bad[step].Value
		if b.Generation <= f.Wanted.Value.Forsaken {
			continue
		}
		if !ok || cmp.Or(b.At.Compare(last.At), cmp.Compare(b.Generation, last.Generation)) >= 0 {
			last, ok = b, true
		}
	}
	return last, ok
}

// bereftWhy names what was lost last.
func bereftWhy(f formed) string {
	last, _ := lostLast(f)
	return fmt.Sprintf("%s; there is no older one: once it is mended, 'bellows resume %s --from %d' tries it again; 'bellows resume %s --from-start' does without it",
		last.Reason, f.ID, last.Step, f.ID)
}
