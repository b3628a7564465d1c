package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/split"
)

// convergence shares devices out by where in their training jobs are, as their losses
// tell (Wei and Shudo, "Adaptive Allocation of Computing Resources for Multiple
// Distributed Deep Learning Tasks", 2020): the older job, whose loss falls less, has more
// processes, so that it ends, and then leaves all to the younger. The source has two jobs on
// four devices, 3 and 1, and leaves other numbers to the future. Here jobs are put in
// an order by their falls, each relative to all of the job's own fall so far, so that losses
// of any scale compare (SLAQ, Zhang et al., SoCC 2017, normalises so); and every
// job has its smallest size, and the rest is shared out as heSRPT does among jobs of which only
// the order of what they have left is known. For two equal jobs on four devices that is 3 and 1.
//
// A job that tells no loss, or too little yet, is taken for young. One whose loss is
// constant, rises, or is not a number gains nothing by more devices: it keeps its smallest size, and
// has more only where no other job can use it. Falls count by their powers of two, and equals
// are in the order of submission, so that noise moves no one.
//
// Where its batch ranges, a job has as many samples for each worker as its smallest
// batch on its smallest world: the source's batch of 128 for each process. One of one batch shares that out.
type convergence struct{}

// Name implements allocator.Policy.
func (convergence) Name() string { return "convergence" }

func (convergence) leavesIdle() {}

func (convergence) movesAgain() {}

// Allocate implements allocator.Policy.
func (convergence) Allocate(in allocator.Input) allocator.Output {
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
	gaining, flat := byAge(d.jobs, tried)
	worth := hesrptWeights(d, gaining)
	for _, i := range flat {
		worth[i] = flatWorth
	}
	p, devices := []split.Job{}, max(0, d.idle)
	for _, i := range tried {
		var options split.Job
		for _, k := range d.jobs[i].Sizes {
			if len(options) == 0 || k <= d.devices.UsableFor(d.jobs[i]) {
				options = append(options, split.Option{Devices: k, Value: worth[i] * perProcessSpeed(d.jobs[i], k)})
			}
		}
		p, devices = append(p, options), devices+d.counts[i]
	}
	if plan, ok := splitFast(p, devices); ok {
		for n, i := range tried {
			d.upTo(i, d.jobs[i].Sizes, p[n][plan.Choices[n]].Devices)
		}
	}
	for _, i := range movable {
		if d.counts[i] != d.jobs[i].Workers {
			d.why[i] = ageOf(d.jobs[i]).text()
		}
	}
	out := d.answer()
	for _, i := range movable {
		if j, k := d.jobs[i], d.counts[i]; k > 0 && k != j.Workers {
			out.Decisions[i].BatchSize = perProcess(j, k)
		}
	}
	return out
}

// age is a job's place in the order.
type age struct {
	flat string
	fall int // its logarithm, the less the older
}

// youngest is the age of jobs of whose loss nothing is known.
const youngest = 1

func ageOf(j allocator.JobView) age {
	switch l := j.Loss; {
	case l == nil:
		return age{fall: youngest}
	case l.Flat != "":
		return age{flat: l.Flat}
	case l.Fall > 0:
		return age{fall: max(oldest, min(0, int(math.Round(math.Log2(l.Fall)))))}
	}
	return age{fall: oldest}
}

// oldest is the age of a job whose loss falls by no more than a thousandth.
const oldest = -10

func (a age) text() string {
	switch {
	case a.flat != "":
		return a.flat + ": what no other job can use"
	case a.fall == youngest:
		return "it tells too few losses yet, by bellows.report(step, loss=…) or --progress: counts as young"
	case a.fall > -3:
		return "its loss falls fast: young, less than its share"
	}
	return "its loss falls slowly: old, more than its share"
}

// byAge sorts jobs, the oldest first, and puts those apart that gain nothing by more steps.
func byAge(all []allocator.JobView, jobs []int) (gaining, flat []int) {
	for _, i := range jobs {
		if ageOf(all[i]).flat == "" {
			gaining = append(gaining, i)
		} else {
			flat = append(flat, i)
		}
	}
	slices.SortStableFunc(gaining, func(x, y int) int { return cmp.Compare(ageOf(all[x]).fall, ageOf(all[y]).fall) })
	return gaining, flat
}

// flatWorth is what the speed of such a job is worth: so little that all devices of a cluster gain
// less of it than one step of any other job.
const flatWorth = 1e-6

// perProcessSpeed is how fast a job gets on with k workers. Where its batch ranges and it is not known what
// a larger one is worth, samples count, as the batch grows with the processes.
func perProcessSpeed(j allocator.JobView, k int) float64 {
	if j.Batches == nil {
		return fastestAt(j, k)
	}
	return speedAt(j, k)
}

// perProcess is the batch of k workers that leaves each as many samples as the smallest
// world's workers have of the smallest batch; no more than the largest, shared equally unless
// its owner allows uneven shares. 0 = the only batch.
func perProcess(j allocator.JobView, k int) int {
	if j.BatchSize.Max <= j.BatchSize.Min {
		return 0
	}
	each := j.BatchSize.On(j.Sizes[0]) / j.Sizes[0]
	batch := min(each*k, j.BatchSize.Max)
	if !j.BatchSize.Shares(batch, k) {
		batch -= batch % k
	}
	if batch < j.BatchSize.Min {
		return 0
	}
	return batch
}
