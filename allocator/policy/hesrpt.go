package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
)

// hesrpt shares devices as heSRPT does (Berg, Vesilo, Harchol-Balter, "heSRPT:
// Optimal Parallel Scheduling of Jobs With Known Sizes", 2019, arXiv 1903.09346,
// its optimal allocation for mean flow time): among m jobs whose speed with k
// devices is k^p, present at once, the optimum gives the i-th longest the fraction
// (i/m)^e − ((i−1)/m)^e of all devices, e = 1/(1−p). Those fractions maximise
// Σ w_i·θ_i^p for the weights w_i = (i^e − (i−1)^e)^(1−p), and so devices, which
// do not divide and come in powers of two, go step by step to the job that gains
// most of that sum for each. p is the default model's, 1 + log2 0.8 = 0.678.
//
// In its first form that is all: the longest jobs may get
// nothing, and everything is decided again at each interval. The second form
// (hesrpt-steady) gives every job its smallest size first, the shortest before
// the others, and lets a job that runs grow only if it ends sooner for
// it, the pause of a rescale counted: hardly any queueing and fewer rescales,
// for a few per cent of the mean.
type hesrpt struct {
	keepsPromises
	steady bool
}

// Name implements allocator.Policy.
func (h hesrpt) Name() string {
	if h.steady {
		return "hesrpt-steady"
	}
	return "hesrpt"
}

func (hesrpt) leavesIdle() {}

// Allocate implements allocator.Policy.
func (h hesrpt) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	_, movable := d.clearMovable()
	d.keepPromises(movable)
	order := d.byWork(movable)
	weight := hesrptWeights(d, order)
	gain := func(i, from, to int) float64 {
		j := d.jobs[i]
		if from == 0 {
			return weight[i] * speedAt(j, to)
		}
		return weight[i] * (speedAt(j, to) - speedAt(j, from))
	}
	if !h.steady {
		d.distribute(order, gain)
		d.startFitting(order) // where a long job does not fit, a shorter one may
	} else {
		d.startFitting(order)
		d.distribute(d.running(order), gain)
		d.undoPoorGrowth(order)
		d.startFitting(order)
		// The remaining devices go to jobs that have not run before, which lose nothing by it.
		d.distribute(slices.DeleteFunc(d.running(order), func(i int) bool { return d.jobs[i].Workers > 0 }), gain)
	}
	d.explain("its share by remaining work")
	return d.answer()
}

// byWork sorts jobs by their remaining work, the least first.
func (d *draft) byWork(jobs []int) []int {
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(work(d.jobs[x]), work(d.jobs[y])) })
	return order
}

// hesrptWeights are the weights of jobs in ascending order of remaining work, by job.
func hesrptWeights(d *draft, order []int) []float64 {
	p := 1 + math.Log2(0.8)
	e := 1 / (1 - p)
	weights := make([]float64, len(d.jobs))
	for n, i := range order {
		rank := float64(len(order) - n) // 1 = the longest
		weights[i] = math.Pow(math.Pow(rank, e)-math.Pow(rank-1, e), 1-p)
	}
	return weights
}

// undoPoorGrowth leaves a job that runs as it is where growing would not let it
// end sooner.
func (d *draft) undoPoorGrowth(jobs []int) {
	for _, i := range jobs {
		j := d.jobs[i]
		if j.Workers == 0 || d.counts[i] <= j.Workers {
			continue
		}
		if work(j)/speedAt(j, d.counts[i])+j.StartCost(d.counts[i]).Seconds() >= work(j)/speedAt(j, j.Workers) {
			d.set(i, j.Workers)
		}
	}
}
