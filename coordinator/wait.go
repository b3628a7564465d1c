package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A wait is recorded as two moments of the clock of whoever led when it began,
// and means the time between them. Each term counts it on its own clock, from
// when it first saw that it had begun: a new leader's clock may be minutes off,
// and one that took the second moment at its word would cut saves short. What
// that costs is that a wait begins anew with a new leader.
//
// What takes days, as the records of jobs that have ended, or adds up over many
// leaders, as a job's time limit, goes by the wall clock.
type wait struct {
	job  cluster.JobID // "" = the cluster
	what waitKind
}

type waitKind uint8

const (
	saveWait   waitKind = iota // for a halted generation to save
	startWait                  // for a generation to start as a gang
	retryWait                  // after a failure
	secondWait                 // for a second node to look at a checkpoint
	pauseWait                  // for the cluster to come to rest
)

// begun is when a wait began: by the records, and as this term has seen it.
type begun struct{ mark, seen time.Time }

// since returns when this term first saw the wait that began at mark, on its own clock.
func (c *Coordinator) since(w wait, mark time.Time) time.Time {
	if !c.rule(OwnClock) {
		return c.clock.Add(-c.now.Sub(mark))
	}
	b, ok := c.waits[w]
	if !ok || !b.mark.Equal(mark) {
		b = begun{mark, c.clock}
		c.waits[w] = b
	}
	return b.seen
}

// forgetWaits drops what a job that is gone waited for.
func (c *Coordinator) forgetWaits(job cluster.JobID) {
	for what := saveWait; what <= pauseWait; what++ {
		delete(c.waits, wait{job, what})
	}
}

// saveTime is how long a halted generation still has to save.
func (c *Coordinator) saveTime(f formed) time.Duration {
	h := f.gen.Halt.Value
	return h.Deadline.Sub(h.At) - c.clock.Sub(c.since(wait{f.ID, saveWait}, h.At))
}

// shortened is the halt with so much time left to save.
func (c *Coordinator) shortened(f formed, left time.Duration) record.Halt {
	h := f.gen.Halt.Value
	h.Deadline = h.At.Add(c.clock.Sub(c.since(wait{f.ID, saveWait}, h.At)) + max(0, left))
	return h
}
