package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/cluster"
)

// ask returns the question that is due, nil if there is none.
func ask(in situation) *allocator.Input {
	d := in.decisions
	if d.asking() || len(in.live()) == 0 {
		return nil // without devices there is nothing to decide: who runs is lost, or alone
	}
	if again, ok := d.noneDueUntil(in.view, in.clock); ok {
		in.wake(again)
		return nil
	}
	d.noneDue(in.view)
	if d.last.IsZero() {
		d.last, d.inherited = lastAsked(in), true
	}
	due, kept := d.last.Add(in.cfg.Interval), promising(in)
	if kept {
		if slot := slotDue(in, d.last); slot.Before(due) {
			due = slot
		}
	}
	timely := !in.clock.Before(due)
	full := timely || urgent(in) || kept && d.served != in.mirror.Promised.Mod || d.inherited && haltsUndecided(in)
	if !full && in.cfg.Prompt && cameOrWent(in) {
		due = d.last.Add(in.cfg.Interval / lookahead.PromptPerInterval)
		full = !in.clock.Before(due)
	}
	if !full && (!waiting(in) || !idle(in)) {
		d.again = due
		in.wake(due)
		return nil
	}
	q := question(in)
	switch {
	case len(q.Jobs) == 0:
		return nil
	case same(d.full, &q) && (!timely || in.cfg.Timeless && !d.void):
		if full {
			d.served = in.mirror.Promised.Mod
		}
		if d.void || !in.cfg.Timeless || kept { // work gets done without any record that changes the view
			d.again = due
			in.wake(due)
		}
		return nil
	case full:
		d.last, d.full, d.void, d.inherited = in.clock, &q, false, false
		d.served = in.mirror.Promised.Mod
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

// lastAsked is when the term before this one asked its last full question, on this
// leader's clock: a new leader goes on in the rhythm of the one before, so that
// elections rescale no job more often than the policy is meant to. What it cannot
// know it takes for an interval ago, and asks: which devices stay idle or which
// policy decides must not depend on a record that was never written. A clock that
// was ahead of this one's makes it wait for an interval at most.
func lastAsked(in situation) time.Time {
	last, ago := in.mirror.Decision.Value, in.cfg.Interval
	if last.Policy == in.cfg.Policy {
		ago = min(max(in.now.Sub(last.Asked), 0), in.cfg.Interval)
	}
	return in.clock.Add(-ago)
}

// haltsUndecided reports whether a job halts about which this term has decided
// nothing: the halt may be half of a rescale, whose other half only an answer tells.
func haltsUndecided(in situation) bool {
	return slices.ContainsFunc(in.jobs(), func(j *job) bool {
		of := about(in, j)
		return j.state().Phase == cluster.Halting && !of.decided && takesPart(of)
	})
}

// cameOrWent reports whether a job or a node has come, gone or changed in its
// devices since the last full question.
func cameOrWent(in situation) bool {
	last := in.decisions.full
	if last == nil || !slices.EqualFunc(last.Nodes, in.live(), sameNode) {
		return true
	}
	n := 0
	for _, j := range in.jobs() {
		if !takesPart(about(in, j)) {
			continue
		}
		n++
		v := allocator.JobView{ID: j.ID, SubmittedAt: j.Spec.Value.At}
		if _, there := slices.BinarySearchFunc(last.Jobs, v, bySubmission); !there {
			return true
		}
	}
	return n != len(last.Jobs)
}

// bySubmission is the order of the jobs of a question.
func bySubmission(a, b allocator.JobView) int {
	return cmp.Or(a.SubmittedAt.Compare(b.SubmittedAt), cmp.Compare(a.ID, b.ID))
}

// question is the snapshot that a decision is made from.
func question(in situation) allocator.Input {
	q := allocator.Input{Now: in.now, Seed: uint64(in.mirror.Revision), Nodes: in.live(), Interval: in.cfg.Interval, Memory: in.memory}
	for _, j := range in.jobs() {
		if of := about(in, j); takesPart(of) {
			q.Jobs = append(q.Jobs, asked(of))
		}
	}
	slices.SortFunc(q.Jobs, bySubmission)
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
	case cluster.Held, cluster.Succeeded, cluster.Failed, cluster.Stopped, cluster.Refused:
	}
	return false
}

// asked is what a decision learns of the job.
func asked(in situation) allocator.JobView {
	spec := in.Spec.Value
	v := allocator.JobView{
		ID: in.ID, Sizes: in.sizes, BatchSize: in.Batch(), Priority: spec.Priority,
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
		if v.Deadline = *spec.Deadline; in.now.After(v.Deadline) {
			v.Deadline = spec.Latest()
		}
	}
	v.Trained, v.Service = in.trained(in.now)
	of := in
	of.job = withSizes(in.job, v.Sizes)
	f := foresee(of)
	v.Work, v.Alike, v.Speeds, v.StartCosts = f.Work, f.Alike, f.Speeds, f.StartCosts
	v.Batches, v.Staying, v.Fastest = f.Batches, f.Staying, f.Fastest
	v.Loss = lossOf(in)
	v.Careful, v.Booting = f.Careful(), booting(in, v)
	v.Promise, _ = promised(in)
	v.Models, v.Mixed = onModels(of, v.Promise != nil), spec.Where.MixModels
	return v
}

// booting is what is left of the job's last start until it trains, if it takes as long as others did.
func booting(in situation, v allocator.JobView) time.Duration {
	if v.Workers == 0 {
		return 0
	}
	if m := in.measures.of[in.ID]; m != nil && m.generation == in.number() {
		if _, _, begun := m.meter.Step(); begun {
			return 0
		}
	}
	return max(0, v.StartCost(v.Workers)-in.now.Sub(in.gen.Plan.Value.At))
}

// withSizes is the job with other sizes.
func withSizes(j *job, sizes []int) *job {
	if slices.Equal(j.sizes, sizes) {
		return j
	}
	other := *j
	other.sizes = sizes
	return &other
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
// on, but for what passes with time: it alone can change what a policy that is not
// timeless answers at an interval's end, but nothing that it may do between two.
func same(a, b *allocator.Input) bool {
	return a != nil && slices.EqualFunc(a.Nodes, b.Nodes, sameNode) && slices.EqualFunc(a.Jobs, b.Jobs, sameJob)
}

func sameNode(a, b cluster.Node) bool {
	return a.ID == b.ID && a.Cordoned == b.Cordoned && a.Location == b.Location && a.PricePerHour == b.PricePerHour &&
		slices.Equal(a.Devices, b.Devices)
}

func sameJob(a, b allocator.JobView) bool {
	return a.ID == b.ID && a.Pinned == b.Pinned && a.Promise.Now() == b.Promise.Now() && (a.Promise == nil) == (b.Promise == nil) && slices.Equal(a.Sizes, b.Sizes) && slices.Equal(a.Excluded, b.Excluded) &&
		a.Present.BatchSize == b.Present.BatchSize && slices.EqualFunc(a.Present.Placements, b.Present.Placements, samePlacement)
}

func samePlacement(a, b cluster.Placement) bool {
	return a.Node == b.Node && slices.Equal(a.Devices, b.Devices)
}
