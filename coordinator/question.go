package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// ask returns the question that is due, nil if there is none.
func ask(in situation) *allocator.Input {
	d := in.decisions
	if d.asking() || len(in.live()) == 0 {
		return nil // without devices there is nothing to decide: who runs is lost, or alone
	}
	if again, ok := d.settled(in.view, in.clock); ok {
		in.wake(again)
		return nil
	}
	d.settle(in.view)
	due := d.last.Add(in.cfg.Interval)
	timely := !in.clock.Before(due)
	full := timely || urgent(in)
	if !full && (!waiting(in) || !idle(in)) {
		d.again = due
		in.wake(due)
		return nil
	}
	q := question(in)
	switch {
	case len(q.Jobs) == 0:
		return nil
	case same(d.full, &q) && sameWork(d.full, &q) && (!timely || !d.void):
		if d.void {
			d.again = due
			in.wake(due)
		} else if slices.ContainsFunc(q.Jobs, func(j allocator.JobView) bool { return j.Remaining > 0 }) {
			// Work gets done without any record that changes the view.
			d.again = in.clock.Add(in.cfg.Interval)
			in.wake(d.again)
		}
		return nil
	case full:
		d.last, d.full, d.void = in.clock, &q, false
	case !same(d.idle, &q):
		before := q
		before.Jobs = slices.Clone(q.Jobs)
		d.idle = &before
		q.Between = true
		applyDecided(in, &q)
	default:
		d.again = due
		in.wake(due)
		return nil
	}
	d.asked = &q
	return &q
}

// question is the snapshot that a decision is made from.
func question(in situation) allocator.Input {
	q := allocator.Input{Now: in.now, Seed: uint64(in.mirror.Revision), Nodes: in.live(), Memory: in.memory}
	for _, j := range in.jobs() {
		if of := about(in, j); takesPart(of) {
			q.Jobs = append(q.Jobs, asked(of))
		}
	}
	slices.SortFunc(q.Jobs, func(a, b allocator.JobView) int {
		return cmp.Or(a.SubmittedAt.Compare(b.SubmittedAt), cmp.Compare(a.ID, b.ID))
	})
	return q
}

// takesPart reports whether the job takes part in decisions: it runs, or could start before the next one.
func takesPart(in situation) bool {
	if len(in.sizes) == 0 || in.unwanted() {
		return false
	}
	switch s := in.state(); s.Phase {
	case cluster.Queued, cluster.Starting, cluster.Running, cluster.Halting:
		return true
	case cluster.Backoff:
		return retryAt(in).Before(in.clock.Add(in.cfg.Interval))
	case cluster.Held, cluster.Succeeded, cluster.Failed, cluster.Stopped:
	}
	return false
}

// asked is what a decision learns of the job.
func asked(in situation) allocator.JobView {
	spec := in.Spec.Value
	v := allocator.JobView{
		ID: in.ID, Sizes: in.sizes, BatchSize: spec.BatchSize, Priority: spec.Priority,
		SubmittedAt: spec.At, Present: in.has, Excluded: in.refusals(in.job).nodes,
	}
	v.Workers = v.Present.Workers()
	v.Pinned = in.state().Pinned && v.Workers > 0
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
	v.Remaining = remaining(in)
	v.Trained, v.Service = in.trained(in.now)
	return v
}

// remaining estimates the work left from what the owner said and the job's progress.
func remaining(in situation) time.Duration {
	eta := time.Duration(in.Spec.Value.ETA)
	if in.Spec.Value.Steps <= 0 {
		return eta
	}
	done := max(in.Committed.Value.Step, progress(in), 0)
	left := 1 - min(1, float64(done)/float64(in.Spec.Value.Steps))
	return time.Duration(left * float64(eta))
}

// progress is the highest step of the newest generation that its nodes have reported, -1 if none.
func progress(in situation) int64 {
	step := int64(-1)
	for _, m := range in.world().Members {
		if p, ok := in.node(m.Node).Reported(in.ID, in.number(), in.world().Nonce); ok {
			step = max(step, p.Step)
		}
	}
	return step
}

// applyDecided puts sizes that were decided into the question, even if they are not carried
// out yet: a decision between two intervals must not undo them.
func applyDecided(in situation, q *allocator.Input) {
	for i, j := range q.Jobs {
		if t, ok := in.granted(j.ID); ok && t.Workers() > 0 && slices.Contains(j.Sizes, t.Workers()) {
			q.Jobs[i].Present, q.Jobs[i].Workers = t.Allocation, t.Workers()
		}
	}
}

// urgent reports whether a running job uses a device that it cannot keep.
func urgent(in situation) bool {
	return slices.ContainsFunc(in.jobs(), func(j *job) bool { return j.fault != "" && j.state().Phase == cluster.Running })
}

// waiting reports whether a job could use devices and was granted none.
func waiting(in situation) bool {
	return slices.ContainsFunc(in.jobs(), func(j *job) bool {
		of := about(in, j)
		return len(j.has.Placements) == 0 && of.target.Workers() == 0 && takesPart(of)
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
