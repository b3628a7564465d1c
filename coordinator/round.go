package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// round is where asking and deciding stands:
//
//	something changed ──► interval over ──► ask ──► Decided ──► targets
//	somebody waits and devices are idle ──► ask Between ──┘
type round struct {
	asked  *allocator.Input // waiting for its answer
	last   time.Time        // when the last full question was asked
	full   *allocator.Input // that question, to be asked again only when it is another
	idle   *allocator.Input // the last one asked between
	void   bool             // something that was granted since could not be had: ask again, though not at once
	memory []byte
	moves  []record.Move // decided and not yet recorded
	value  float64
	bound  float64
	fault  string // why the last question got no answer

	drawn *picture  // of which it is known that nothing is to be asked
	again time.Time // before this; zero = as long as it stays so
}

// ask puts a question when one is due.
func (c *Coordinator) ask() {
	if c.round.asked != nil || len(c.nodes()) == 0 {
		return // without devices there is nothing to decide: who runs is lost, or alone
	}
	if again := c.round.again; c.round.drawn == c.picture() && (again.IsZero() || c.clock.Before(again)) {
		c.wake(again)
		return
	}
	c.round.drawn, c.round.again = c.picture(), time.Time{}
	due := c.round.last.Add(c.cfg.Interval)
	timely := !c.clock.Before(due)
	full := timely || c.urgent()
	if !full && (!c.waiting() || !c.idle()) {
		c.round.again = due
		c.wake(due)
		return
	}
	in := c.question()
	switch {
	case len(in.Jobs) == 0:
		return
	case same(c.round.full, &in) && sameWork(c.round.full, &in) && (!timely || !c.round.void):
		if c.round.void {
			c.round.again = due
			c.wake(due)
			return
		}
		if slices.ContainsFunc(in.Jobs, func(j allocator.JobView) bool { return j.Remaining > 0 }) {
			// Work gets done without any record that draws another picture.
			c.round.again = c.clock.Add(c.cfg.Interval)
			c.wake(c.round.again)
		}
		return
	case full:
		c.round.last, c.round.full, c.round.void = c.clock, &in, false
	case !same(c.round.idle, &in):
		before := in
		before.Jobs = slices.Clone(in.Jobs)
		c.round.idle = &before
		in.Between = true
		c.keepPromises(&in)
	default:
		c.round.again = due
		c.wake(due)
		return
	}
	c.round.asked = &in
	c.out.Ask = &in
}

// question is the snapshot that a decision is made from.
func (c *Coordinator) question() allocator.Input {
	in := allocator.Input{Now: c.now, Seed: uint64(c.mirror.Revision), Nodes: c.nodes(), Memory: c.round.memory}
	for _, f := range c.jobs() {
		if c.asksFor(*f) {
			in.Jobs = append(in.Jobs, c.asking(f))
		}
	}
	slices.SortFunc(in.Jobs, func(a, b allocator.JobView) int {
		return cmp.Or(a.SubmittedAt.Compare(b.SubmittedAt), cmp.Compare(a.ID, b.ID))
	})
	return in
}

// asksFor reports whether the job takes part in decisions: it runs, or could start before the next one.
func (c *Coordinator) asksFor(f formed) bool {
	if len(f.sizes) == 0 || f.unwanted() {
		return false
	}
	switch s := f.state(); s.Phase {
	case cluster.Queued, cluster.Starting, cluster.Running, cluster.Halting:
		return true
	case cluster.Backoff:
		return c.retryAt(f).Before(c.clock.Add(c.cfg.Interval))
	case cluster.Held, cluster.Succeeded, cluster.Failed, cluster.Stopped:
	}
	return false
}

// asking returns what a decision learns of the job. Of one without workers, and
// there may be thousands, it stays the same until a record of it changes; but
// what its nodes report of its progress may still come.
func (c *Coordinator) asking(f *formed) allocator.JobView {
	if f.asks.ID != "" && !c.cfg.Restless {
		v := f.asks
		v.Remaining = c.remaining(*f)
		return v
	}
	v := c.view(*f)
	if !f.state().Phase.Active() {
		f.asks = v
	}
	return v
}

func (c *Coordinator) view(f formed) allocator.JobView {
	spec := f.Spec.Value
	v := allocator.JobView{
		ID: f.ID, Sizes: f.sizes, BatchSize: spec.BatchSize, Priority: spec.Priority,
		SubmittedAt: spec.At, Present: f.has, Excluded: slices.Sorted(maps.Keys(c.barred(f.JobView))),
	}
	v.Workers = v.Present.Workers()
	v.Pinned = f.state().Pinned && v.Workers > 0
	if v.Workers > 0 && !slices.Contains(v.Sizes, v.Workers) { // its owner has scaled it since
		if v.Pinned {
			v.Sizes = slices.Sorted(slices.Values(append(slices.Clone(v.Sizes), v.Workers)))
		} else {
			v.Workers, v.Present = 0, cluster.Allocation{} // it asks as one that waits does
		}
	}
	if spec.Deadline != nil {
		v.Deadline = *spec.Deadline
	}
	v.Remaining = c.remaining(f)
	v.Trained, v.Service = c.trained(f.JobView)
	return v
}

// remaining estimates the work left from what the owner said and the job's progress.
func (c *Coordinator) remaining(f formed) time.Duration {
	eta := time.Duration(f.Spec.Value.ETA)
	if f.Spec.Value.Steps <= 0 {
		return eta
	}
	done := max(f.Committed.Value.Step, c.progress(f), 0)
	left := 1 - min(1, float64(done)/float64(f.Spec.Value.Steps))
	return time.Duration(left * float64(eta))
}

// progress is the highest step of the newest generation that its nodes have reported, -1 if none.
func (c *Coordinator) progress(f formed) int64 {
	step := int64(-1)
	for _, m := range f.world().Members {
		if p, ok := c.mirror.Node(m.Node).Reported(f.ID, f.number(), f.world().Nonce); ok {
			step = max(step, p.Step)
		}
	}
	return step
}

// keepPromises makes what was decided, and is perhaps not yet carried out, what
// is in force: a question between two intervals must not undo it.
func (c *Coordinator) keepPromises(in *allocator.Input) {
	for i, j := range in.Jobs {
		if t, ok := c.targets.of[j.ID]; ok && t.Workers() > 0 && slices.Contains(j.Sizes, t.Workers()) {
			in.Jobs[i].Present, in.Jobs[i].Workers = t.Allocation, t.Workers()
		}
	}
}

// urgent reports whether a running job uses a device that it cannot keep.
func (c *Coordinator) urgent() bool {
	return slices.ContainsFunc(c.jobs(), func(f *formed) bool { return f.fault != "" && f.state().Phase == cluster.Running })
}

// waiting reports whether a job could use devices and has been promised none.
func (c *Coordinator) waiting() bool {
	return slices.ContainsFunc(c.jobs(), func(f *formed) bool {
		return len(f.has.Placements) == 0 && c.asksFor(*f) && c.targets.of[f.ID].Workers() == 0
	})
}

// same reports whether two questions are alike in all that a decision depends
// on, but for the time and the work left.
func same(a, b *allocator.Input) bool {
	return a != nil && slices.EqualFunc(a.Nodes, b.Nodes, sameNode) && slices.EqualFunc(a.Jobs, b.Jobs, sameJob)
}

func sameNode(a, b cluster.Node) bool {
	return a.ID == b.ID && a.Cordoned == b.Cordoned && slices.Equal(a.Devices, b.Devices)
}

func sameJob(a, b allocator.JobView) bool {
	return a.ID == b.ID && a.Pinned == b.Pinned && slices.Equal(a.Sizes, b.Sizes) && slices.Equal(a.Excluded, b.Excluded) &&
		a.Present.BatchSize == b.Present.BatchSize && slices.EqualFunc(a.Present.Placements, b.Present.Placements, samePlacement)
}

func samePlacement(a, b cluster.Placement) bool {
	return a.Node == b.Node && slices.Equal(a.Devices, b.Devices)
}

// sameWork compares how much each job of two like questions has left, as far as
// that is known: it alone can change what a policy answers at an interval's end,
// but nothing that it may do between two.
func sameWork(a, b *allocator.Input) bool {
	return slices.EqualFunc(a.Jobs, b.Jobs, func(x, y allocator.JobView) bool { return max(0, x.Remaining) == max(0, y.Remaining) })
}
