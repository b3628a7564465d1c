package policy

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/split"
)

// saxena maximises the sum of throughput scaling factors (Saxena et al., "Effective
// Elastic Scaling of Deep Learning Workloads", MASCOTS 2020): of each job, how many
// times the samples it does that one device could, at its best batch for the number
// of its devices (equations 1 to 3). The batch may be any that its owner allows. It is
// decided anew every interval, the paper's Δ, by the dynamic program of recurrence 4
// (split.Best), or where that takes too long by concave hulls.
//
// Which jobs take part is tried in the order of arrival, those that run before others:
// the program has an answer if each job's smallest size fits, and then every job of it
// runs, so that trying jobs one by one (figure 4) is to add up smallest sizes. A job
// that does not fit waits, and those behind it are tried: the paper's queue mode. Its
// drop mode refuses it, which a cluster does not do to a job that it has accepted.
//
// Two things are not the paper's. A start costs time, and so a change of size or batch
// counts what it does in the rest of the interval only; with starts that cost nothing it
// is the paper's. And between two intervals jobs that wait start on what is idle.
type saxena struct{}

const (
	// saxenaWork is how many additions the dynamic program may take: some 50 ms.
	saxenaWork = 5e7
	// saxenaDearest is the part of the period that a start counts at most: where decisions
	// come faster than starts, jobs would else never move.
	saxenaDearest = 0.1
	// saxenaStay is what a job's present size is worth besides: equal plans move no one.
	saxenaStay = 1e-6
)

// Name implements allocator.Policy.
func (saxena) Name() string { return "saxena" }

func (saxena) leavesIdle() {}

func (saxena) movesAgain() {}

// Allocate implements allocator.Policy.
func (saxena) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	_, movable := d.clearMovable()
	for _, runs := range []bool{true, false} {
		for _, i := range movable {
			if (d.jobs[i].Workers > 0) == runs {
				d.set(i, d.smallest(i))
			}
		}
	}
	tried := d.running(movable)
	s := scaling{period: cmp.Or(in.Interval, defaultSlot).Seconds(), devices: max(0, d.idle)}
	for _, i := range tried {
		s.add(d.jobs[i], d.devices.UsableFor(d.jobs[i]))
	}
	sizes, bound := s.share()
	for n, i := range tried {
		d.upTo(i, d.jobs[i].Sizes, sizes[n])
	}
	d.rebatched = map[int]bool{}
	for _, i := range movable {
		d.rebatched[i] = s.restartsFaster(d.jobs[i]) // at its present size, where it keeps that
	}
	d.explain("most samples of all jobs, each against one device")
	out := d.answer()
	for _, i := range movable {
		j, k := d.jobs[i], d.counts[i]
		if k == 0 {
			continue
		}
		out.Value += s.throughput(j, k)
		if f := j.Fastest; f != nil && (k != j.Workers || d.rebatched[i]) {
			out.Decisions[i].BatchSize = f.Batches[slices.Index(j.Sizes, k)]
		}
	}
	out.Bound = max(bound, out.Value)
	return out
}

// scaling is the problem of equation 3: jobs with their smallest sizes, and devices.
type scaling struct {
	period  float64 // the paper's Δ, in seconds
	devices int     // that jobs have, and that are idle
	jobs    []split.Job
}

// add takes a job in, whose nodes have so many devices.
func (s *scaling) add(j allocator.JobView, open int) {
	var options split.Job
	for _, k := range j.Sizes {
		if len(options) > 0 && k > open {
			break
		}
		worth := s.throughput(j, k)
		if k == j.Workers {
			worth += saxenaStay
		}
		options = append(options, split.Option{Devices: k, Value: worth})
	}
	s.devices += j.Sizes[0]
	s.jobs = append(s.jobs, options)
}

// share is how many workers each of the jobs gets, and a bound of what all are worth.
func (s *scaling) share() (sizes []int, bound float64) {
	plan, ok := splitFast(s.jobs, s.devices)
	for n, options := range s.jobs {
		at := 0
		if ok {
			at = plan.Choices[n]
		}
		sizes = append(sizes, options[at].Devices)
	}
	return sizes, plan.Bound
}

// splitFast is the best plan, or where that takes too long one that is nearly as good.
func splitFast(jobs []split.Job, devices int) (split.Plan, bool) {
	if split.Work(jobs, devices) > saxenaWork {
		return split.Hull(jobs, devices)
	}
	return split.Best(jobs, devices)
}

// throughput is what a job does with k workers until the next decision, relative to one device.
func (s *scaling) throughput(j allocator.JobView, k int) float64 {
	if k == j.Workers && !s.restartsFaster(j) {
		return stayingFastest(j)
	}
	return s.restarted(j, k)
}

// restarted is that of a start with k workers and the best batch for them, the start paid for.
func (s *scaling) restarted(j allocator.JobView, k int) float64 {
	return fastestAt(j, k) * (1 - min(saxenaDearest, j.StartCost(k).Seconds()/s.period))
}

// restartsFaster reports whether a job that runs does more if it starts again at its size with its best batch.
func (s *scaling) restartsFaster(j allocator.JobView) bool {
	return j.Fastest != nil && j.Fastest.Staying > 0 && s.restarted(j, j.Workers) > j.Fastest.Staying
}

// fastestAt is the throughput scaling factor at a size: of one batch, where no other was measured, the speed.
func fastestAt(j allocator.JobView, k int) float64 {
	if i := slices.Index(j.Sizes, k); j.Fastest != nil && i >= 0 {
		return j.Fastest.Speeds[i]
	}
	return speedAt(j, k)
}

// stayingFastest is that of the present world.
func stayingFastest(j allocator.JobView) float64 {
	switch {
	case j.Fastest == nil:
		return staying(j)
	case j.Fastest.Staying > 0:
		return j.Fastest.Staying
	}
	return fastestAt(j, j.Workers)
}
