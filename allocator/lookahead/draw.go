package lookahead

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
)

// level is where in its distribution what is drawn for a job lies in the i-th of n
// futures, above 0 and below 1: over all futures evenly, in another order for each job.
func level(id string, i, n int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	step := 1
	if n > 2 {
		step = 1 + int(h.Sum64()%uint64(n-1))
		for gcd(step, n) != 1 {
			step++
		}
	}
	from := int(h.Sum64() >> 32 % uint64(n))
	return (float64((from+i*step)%n) + 0.5) / float64(n)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// drawLeft draws how much is left of a job, in seconds on one device.
//
// Known work is off by what its speed may be off: Careful is at the lower end of nine
// in ten. Of unknown work, each of the jobs like it is as likely; without those, as much lies ahead
// as behind in the median, and more with the odds of a heavy tail: the chance that more than x follows on w is w/(w+x).
func drawLeft(j allocator.JobView, u float64) float64 {
	switch {
	case j.Work.Known:
		return j.Work.Left.Seconds() * math.Exp(spread(j)*normal(u))
	case len(j.Alike) > 0:
		return j.Alike[int(u*float64(len(j.Alike)))].Seconds()
	}
	u = min(u, mostTail)
	return max(j.Service, leastUnknown).Seconds() * u / (1 - u)
}

const (
	// mostTail bounds what is drawn of a heavy tail.
	mostTail = 0.95
	// leastUnknown is the least that unknown work is taken to be in the median, as policies take it.
	leastUnknown = time.Hour
	// inTen is how many standard deviations the lower end of nine in ten lies below the middle.
	inTen = 1.645
)

// spread is the standard deviation of the log of the job's speed.
func spread(j allocator.JobView) float64 {
	worst := 0.0
	for i, v := range j.Careful {
		if i < len(j.Speeds) && v > 0 && v < j.Speeds[i] && (j.Workers == 0 || i < len(j.Sizes) && j.Sizes[i] == j.Workers) {
			worst = max(worst, math.Log(j.Speeds[i]/v)/inTen)
		}
	}
	return min(worst, 1)
}

// normal is the quantile of the normal distribution.
func normal(u float64) float64 { return math.Sqrt2 * math.Erfinv(2*u-1) }

// speedWith is how fast a job is with k workers, relative to one device.
func speedWith(j *allocator.JobView, k int) float64 {
	for i, size := range j.Sizes {
		if size == k && i < len(j.Speeds) && j.Speeds[i] > 0 {
			return j.Speeds[i]
		}
	}
	return goodput.Default(max(1, k))
}

// pace is how fast a job is on devices, as its work is counted.
func (r *run) pace(nodes []cluster.Node, a cluster.Allocation) float64 {
	k := a.Workers()
	if r.view.Models == nil {
		return speedWith(&r.view, k)
	}
	slowest := math.Inf(1)
	for _, p := range a.Placements {
		i, found := slices.BinarySearchFunc(nodes, p.Node, func(n cluster.Node, id cluster.NodeID) int { return cmp.Compare(n.ID, id) })
		if !found {
			continue
		}
		for _, d := range nodes[i].Devices {
			if !slices.Contains(p.Devices, d.ID) {
				continue
			}
			on, rate := r.view.On(d.ModelName()), r.view.RateOn(d.ModelName())
			slowest = min(slowest, rate*speedWith(&on, k))
		}
	}
	if math.IsInf(slowest, 1) {
		return speedWith(&r.view, k)
	}
	return slowest
}
