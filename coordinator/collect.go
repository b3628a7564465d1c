package coordinator

import (
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/record"
)

const (
	// keptGenerations is how many of a job's newest generations stay to be looked at.
	keptGenerations = 3
	// keptRescales bounds the history of a job that is rescaled for months.
	keptRescales = 200
	// collectedAtOnce keeps one collection well below etcd's operations per transaction.
	collectedAtOnce = 32
)

// collect deletes what is too old to be looked at: the oldest generations, and
// what they cost. Agents then delete their own records of them.
func (c *Coordinator) collect(f formed) bool {
	if len(f.Generations) <= keptGenerations && len(f.Rescales) <= keptRescales {
		return false // most of the time, for most jobs
	}
	var ops []record.Op
	most := min(collectedAtOnce, c.cfg.MaxTxnOps)
	for _, g := range slices.Sorted(maps.Keys(f.Generations)) {
		if g+keptGenerations <= f.number() && len(ops) < most {
			ops = append(ops, record.DeletePrefix(record.GenerationPrefix(f.ID, g)))
		}
	}
	for _, g := range slices.Sorted(maps.Keys(f.Rescales)) {
		if g+keptRescales <= f.number() && len(ops) < most {
			ops = append(ops, record.Delete(record.RescaleKey(f.ID, g)))
		}
	}
	return len(ops) > 0 && c.send(move{verb: "collect", job: f.JobView, then: ops})
}

// expire deletes a job that ended long ago. Its checkpoints stay on disk.
func (c *Coordinator) expire(f formed) bool {
	end := f.state().Since.Add(c.cfg.Timing.Retention)
	if c.now.Before(end) {
		c.wake(end)
		return false
	}
	return c.send(move{
		verb: "expire", job: f.JobView,
		then: []record.Op{record.DeletePrefix(record.JobPrefix(f.ID))},
		note: Note{Job: f.ID, Text: "records deleted: it ended at " + f.state().Since.String()},
	})
}

// forget takes in that everything below a prefix was deleted.
func (c *Coordinator) forget(prefix string, revision int64) {
	for _, key := range c.known.below(prefix) {
		c.apply(record.Change{KV: record.KV{Key: key, ModRevision: revision}, Deleted: true})
	}
}
