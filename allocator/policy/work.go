package policy

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

const (
	// unknownWork is the least remaining work assumed of a job of which it is not known.
	unknownWork = time.Hour
	// longestWork bounds what is expected.
	longestWork = 100 * 365 * 24 * time.Hour
	// leastWork is what is left of a job that has to start again although it is done: loading, and ending.
	leastWork = time.Millisecond
)

// work is a job's remaining work in seconds on one device, above 0. If that is
// unknown, as much is assumed to lie ahead as behind: the longer a job has trained,
// the longer it is likely to go on (heavy-tailed durations, as in every published trace).
func work(j allocator.JobView) float64 {
	if j.Work.Known {
		return max(j.Work.Left, leastWork).Seconds()
	}
	return max(j.Service, unknownWork).Seconds()
}

// remainingTime is how long a job still takes at its full size, in seconds.
func remainingTime(j allocator.JobView) float64 { return work(j) / speedAt(j, fullSize(j)) }

// speedAt is the job's speed at one of its sizes relative to one device:
// measured where it is known, else by the default model.
func speedAt(j allocator.JobView, size int) float64 {
	k := slices.Index(j.Sizes, size)
	if k < 0 || k >= len(j.Speeds) || !(j.Speeds[k] > 0) {
		return goodput.Default(size)
	}
	return j.Speeds[k]
}

func fullSize(j allocator.JobView) int { return j.Sizes[len(j.Sizes)-1] }
