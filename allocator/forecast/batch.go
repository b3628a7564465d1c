package forecast

import (
	"math"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
)

func (j Job) step() goodput.Step { return goodput.Step{Batch: j.Batch, Micro: j.Range.Micro} }

// ranges reports whether the job may have another batch than the smallest, and it is
// known what that is worth.
func (j Job) ranges() bool { return j.Range.Most > j.Batch && j.Batch > 0 && j.Range.Noise > 0 }

// worth is what steps at a batch are worth in steps at the smallest.
func (j Job) worth(e goodput.Estimate, batch int) goodput.Estimate {
	gain := goodput.Gain(j.Range.Noise, j.Batch, batch)
	e.PerSecond, e.Low, e.High = e.PerSecond*gain, e.Low*gain, e.High*gain
	return e
}

// in is the speed in the job's present world.
func (l Learned) in(j Job) goodput.Estimate {
	e := l.model.Speed(j.In.Workers, j.In.Nodes)
	if j.ranges() && j.In.Batch > 0 && j.In.Batch != j.Batch {
		return j.worth(l.model.At(j.In.Batch).Speed(j.In.Workers, j.In.Nodes), j.In.Batch)
	}
	return e
}

// samples is a speed in steps at a batch as that in steps at the smallest with as many samples.
func (j Job) samples(e goodput.Estimate, batch int) goodput.Estimate {
	times := float64(batch) / float64(j.Batch)
	e.PerSecond, e.Low, e.High = e.PerSecond*times, e.Low*times, e.High*times
	return e
}

// fastest is b_opt(k) and its throughput scaling factor (Saxena et al., MASCOTS 2020, equations 1
// and 2), of the batches that a device takes as a whole or in parts that fit it; nil where the batch does not range.
func (j Job) fastest(m goodput.Model) *allocator.Fastest {
	if j.Range.Most <= j.Batch || j.Batch < 1 {
		return nil
	}
	one := j
	one.Sizes = []int{1}
	base, _ := one.bestBatches(m, j.samples)
	if !(base[0].PerSecond > 0) {
		return nil
	}
	curve, batches := j.bestBatches(m, j.samples)
	f := &allocator.Fastest{Batches: batches}
	for _, e := range curve {
		f.Speeds = append(f.Speeds, e.PerSecond/base[0].PerSecond)
	}
	return f
}

// stayingFastest is what was learnt of samples with the speed of the job's present world.
func (l Learned) stayingFastest(j Job) *allocator.Fastest {
	f := l.Fastest
	if f == nil {
		return nil
	}
	i := slices.Index(j.Sizes, j.In.Workers)
	if i < 0 || j.In.Batch < 1 || j.In.Batch == f.Batches[i] {
		return f
	}
	in := func(batch int) float64 {
		return j.samples(l.model.At(batch).Speed(j.In.Workers, j.In.Nodes), batch).PerSecond
	}
	with := *f
	with.Staying = f.Speeds[i] * min(1, in(j.In.Batch)/in(f.Batches[i]))
	return &with
}

// bestBatches is the batch of each size with which the job comes furthest in a second
// by what its steps are worth (Pollux's goodput), the smallest of equals, and how far: in steps at the smallest batch
// of all. A larger size is told to be as fast as a smaller one at least, as in goodput.Model.Curve.
func (j Job) bestBatches(m goodput.Model, worth func(goodput.Estimate, int) goodput.Estimate) (curve []goodput.Estimate, batches []int) {
	curve, batches = make([]goodput.Estimate, len(j.Sizes)), make([]int, len(j.Sizes))
	for i, k := range j.Sizes {
		for _, b := range j.batchesOn(k) {
			e := worth(m.At(b).Speed(k, goodput.NodesFor(k, j.PerNode)), b)
			if batches[i] == 0 || e.PerSecond > curve[i].PerSecond {
				curve[i], batches[i] = e, b
			}
		}
		if i > 0 && curve[i].PerSecond < curve[i-1].PerSecond {
			seen := curve[i].Measured
			curve[i] = curve[i-1]
			curve[i].Measured = seen
		}
	}
	return curve, batches
}

// Of the batches of a range those are compared that differ by a factor of finest, but no
// more than about mostBatches: between two neighbours the best is hardly better than both.
const (
	finest      = math.Sqrt2
	mostBatches = 24
)

// batchesOn are the batches that are compared for k workers, ascending: those that they
// share evenly, in whole micro-batches where a device takes its share in parts.
func (j Job) batchesOn(k int) (batches []int) {
	allowed := cluster.BatchSize{Min: j.Batch, Max: j.Range.Most}
	most := float64(allowed.Max)
	next := max(finest, math.Pow(most/float64(allowed.Min), 1.0/mostBatches))
	for want := float64(j.Batch); ; want = min(want*next, most) {
		b := allowed.On(k)
		if share := int(want) / k; j.Range.Micro > 0 && share > j.Range.Micro {
			b = share / j.Range.Micro * j.Range.Micro * k
		} else if share > 0 {
			b = max(b, share*k)
		}
		if n := len(batches); b >= allowed.Min && b <= allowed.Max && (n == 0 || b > batches[n-1]) {
			batches = append(batches, b)
		}
		if want >= most {
			break
		}
	}
	if len(batches) == 0 { // a size that it has by its owner's word alone
		return []int{j.Batch}
	}
	return batches
}
