package policy

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

// unknownWork is the least that is taken to be left of a job that does not say.
const unknownWork = time.Hour

// work is a job's remaining work in seconds on one device. A job of which that
// is unknown is taken to have as much ahead as it has behind it: the longer a
// job has trained, the longer it is likely to go on (heavy-tailed durations, as
// in every published trace).
func work(j allocator.JobView) float64 {
	if j.Remaining > 0 {
		return j.Remaining.Seconds()
	}
	return max(j.Service, unknownWork).Seconds()
}

// remainingTime is how long a job still takes at its full size, in seconds.
func remainingTime(j allocator.JobView) float64 { return work(j) / speedAt(j, fullSize(j)) }

func fullSize(j allocator.JobView) int { return j.Sizes[len(j.Sizes)-1] }
