package forecast

import (
	"math"

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

// bestBatches is the batch of each size with which the job comes furthest in a second
// (Pollux's goodput), the smallest of equals, and how far: in steps at the smallest batch
// of all. A larger size is told to be as fast as a smaller one at least, as in goodput.Model.Curve.
func (j Job) bestBatches(m goodput.Model) (curve []goodput.Estimate, batches []int) {
	curve, batches = make([]goodput.Estimate, len(j.Sizes)), make([]int, len(j.Sizes))
	for i, k := range j.Sizes {
		for _, b := range j.batchesOn(k) {
			e := j.worth(m.At(b).Speed(k, goodput.NodesFor(k, j.PerNode)), b)
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
