package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

// startRatio bounds how far a single start may move what a start is taken to cost.
const startRatio = 3

// startCosts is what a start at each size costs. The prior is the median of its kind,
// else of the cluster, else allocator.DefaultStartCost. Of a size at which the job has
// started more than once, its own starts there count, else all of its own.
//
// One start may be an outlier (a cold cache, a slow disk), so one alone moves the prior
// by a factor of startRatio at most, of two and the prior the middle counts, and only
// three are believed by themselves.
func (j Job) startCosts() []time.Duration {
	prior := allocator.DefaultStartCost
	if j.Fleet > 0 {
		prior = j.Fleet
	}
	if kind := took(j.KindStarts, 0); len(kind) > 0 {
		prior = middle(kind)
	}
	if own := took(j.Starts, 0); len(own) > 0 {
		prior = shrunk(own, prior)
	}
	costs := make([]time.Duration, len(j.Sizes))
	for i, k := range j.Sizes {
		costs[i] = prior
		if here := took(j.Starts, k); len(here) > 1 {
			costs[i] = shrunk(here, prior)
		}
	}
	return costs
}

// took are the costs of starts at a size, or at any (0), sorted.
func took(starts []Start, size int) []time.Duration {
	var out []time.Duration
	for _, s := range starts {
		if s.Took >= 0 && (size == 0 || s.Workers == size) {
			out = append(out, s.Took)
		}
	}
	slices.Sort(out)
	return out
}

// shrunk is the middle of own costs, drawn to the prior while they are few.
func shrunk(own []time.Duration, prior time.Duration) time.Duration {
	switch len(own) {
	case 1:
		return min(max(own[0], prior/startRatio), prior*startRatio)
	case 2:
		return max(own[0], min(own[1], prior))
	}
	return middle(own)
}

// middle is the median of sorted costs.
func middle(sorted []time.Duration) time.Duration {
	n := len(sorted)
	a, b := float64(sorted[(n-1)/2]), float64(sorted[n/2])
	return time.Duration(math.Round(a/2 + b/2))
}
