package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

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
	v.Loss = known(in).Loss()
	v.Careful, v.Booting = f.Careful(), booting(in, v)
	v.Promise = promised(in)
	v.Models, v.Mixed = onModels(of, v.Promise != nil), spec.Where.MixModels
	return v
}

// booting is what is left of the job's last start until it trains, if it takes as long as others did.
func booting(in situation, v allocator.JobView) time.Duration {
	if v.Workers == 0 || known(in).Begun() {
		return 0
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
