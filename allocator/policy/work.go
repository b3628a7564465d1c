package policy

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

// unknownWork is the least remaining work assumed of a job that does not state it.
const unknownWork = time.Hour

// work is a job's remaining work in seconds on one device. If that is unknown, as
// much is assumed to lie ahead as behind: the longer a job has trained, the longer
// it is likely to go on (heavy-tailed durations, as in every published trace).
func work(j allocator.JobView) float64 {
	if j.Remaining > 0 {
		return j.Remaining.Seconds()
	}
	return max(j.Service, unknownWork).Seconds()
}

// remainingTime is how long a job still takes at its full size, in seconds.
func remainingTime(j allocator.JobView) float64 { return work(j) / speedAt(j, fullSize(j)) }

func fullSize(j allocator.JobView) int { return j.Sizes[len(j.Sizes)-1] }
