package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// DefaultKeepResumable bounds the jobs that are kept only to be resumed: a few
// megabytes of specs, states and checkpoints' names.
const DefaultKeepResumable = 1000

const (
	// keptGenerations is how many of a job's newest generations stay to be looked at.
	keptGenerations = 3
	// keptRescales bounds the history of a job that is rescaled for months.
	keptRescales = 200
	// shelvedRescales is how much of that a job keeps that is kept only to be
	// resumed: enough to tell that its last generations had run.
	shelvedRescales = 16
	// collectedAtOnce keeps one collection well below etcd's operations per transaction.
	collectedAtOnce = 32
)

// collect deletes what is too old to be looked at: the oldest generations, and
// what they cost. Agents then delete their own records of them.
func (c *Coordinator) collect(f formed) bool {
	generations, rescales := cluster.Generation(keptGenerations), cluster.Generation(keptRescales)
	if f.state().Phase.Terminal() && !c.now.Before(c.lookedAt(f)) {
		generations, rescales = 0, shelvedRescales
	}
	if len(f.Generations) <= int(generations) && len(f.Rescales) <= int(rescales) {
		return false // most of the time, for most jobs
	}
	var ops []record.Op
	most := min(collectedAtOnce, c.cfg.MaxTxnOps)
	for _, g := range slices.Sorted(maps.Keys(f.Generations)) {
		if g+generations <= f.number() && len(ops) < most {
			ops = append(ops, record.DeletePrefix(record.GenerationPrefix(f.ID, g)))
		}
	}
	for _, g := range slices.Sorted(maps.Keys(f.Rescales)) {
		if g+rescales <= f.number() && len(ops) < most {
			ops = append(ops, record.Delete(record.RescaleKey(f.ID, g)))
		}
	}
	return len(ops) > 0 && c.send(move{verb: "collect", job: f.JobView, then: ops})
}

// lookedAt is until when a job that has ended can be looked at with all that is
// recorded of it.
func (c *Coordinator) lookedAt(f formed) time.Time {
	return f.state().Since.Add(c.cfg.Timing.Retention)
}

// shelved reports whether a job has ended with a checkpoint that it could be
// resumed from. It is kept for longer, with what it takes to resume it: who comes
// back on Monday is to find the job that failed on Friday.
func (f formed) shelved() bool {
	switch f.state().Phase {
	case cluster.Stopped, cluster.Failed:
		return f.Committed.Exists() || len(f.Checkpoints)+len(f.Bad) > 0
	case cluster.Queued, cluster.Starting, cluster.Running, cluster.Halting, cluster.Backoff, cluster.Held, cluster.Succeeded:
	}
	return false
}

// expire deletes a job that ended long ago. Its checkpoints stay on disk.
func (c *Coordinator) expire(f formed) bool {
	looked, end := c.lookedAt(f), c.lookedAt(f)
	if f.shelved() {
		end = f.state().Since.Add(max(c.cfg.Timing.Retention, c.cfg.Timing.Resumable))
	}
	if c.now.Before(end) {
		if !c.now.Before(looked) {
			looked = end
		}
		c.wake(looked)
		return false
	}
	return c.remove("expire", f, "")
}

// clear deletes the job that ended first of those that are kept only to be
// resumed, where there are too many of them.
func (c *Coordinator) clear() {
	most := cmp.Or(c.cfg.KeepResumable, DefaultKeepResumable)
	if c.picture().shelved <= most {
		return // most of the time
	}
	var first *formed
	kept := 0
	for _, f := range c.jobs() {
		if !f.shelved() || c.now.Before(c.lookedAt(*f)) || c.flights[f.ID] != nil {
			continue
		}
		kept++
		if first == nil || f.state().Since.Before(first.state().Since) {
			first = f
		}
	}
	if kept > most {
		c.remove("expire", *first, fmt.Sprintf(", and %d that could be resumed ended later", most))
	}
}

// remove deletes the records of a job that has ended.
func (c *Coordinator) remove(verb string, f formed, why string) bool {
	text := "records deleted: it ended at " + f.state().Since.String() + why
	if last := f.Committed.Value; f.Committed.Exists() {
		text += "; its last checkpoint stays in " + last.Dir
	}
	return c.send(move{
		verb: verb, job: f.JobView,
		then: []record.Op{record.DeletePrefix(record.JobPrefix(f.ID))},
		note: Note{Job: f.ID, Text: text},
	})
}

// forget takes in that everything below a prefix was deleted.
func (c *Coordinator) forget(prefix string, revision int64) {
	for _, key := range c.known.Below(prefix) {
		c.apply(record.Change{KV: record.KV{Key: key, ModRevision: revision}, Deleted: true})
	}
}
