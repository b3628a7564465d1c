package policy

import (
	"cmp"
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

// srtf runs the jobs with the shortest remaining time at their full size. It
// minimises the mean completion time on one device (Schrage, Operations Research
// 16(3), 1968) and is the informed baseline of Muri (Zhao et al., SIGCOMM 2022).
func srtf() ranked {
	return ranked{
		name: "srtf", why: "shortest remaining time",
		before: func(x, y allocator.JobView) int { return cmp.Compare(remainingTime(x), remainingTime(y)) },
	}
}

// srsf runs the jobs with the least remaining service: remaining time at the
// full size, times that size. Unlike srtf it counts what a job takes from the
// others (Tiresias, Gu et al., NSDI 2019, section 3.1; Muri).
func srsf() ranked {
	return ranked{
		name: "srsf", why: "least remaining device time",
		before: func(x, y allocator.JobView) int {
			return cmp.Compare(remainingTime(x)*float64(fullSize(x)), remainingTime(y)*float64(fullSize(y)))
		},
	}
}

// remainingTime is how long a job still takes at its full size, in seconds.
func remainingTime(j allocator.JobView) float64 { return work(j) / speedAt(j, fullSize(j)) }

func fullSize(j allocator.JobView) int { return j.Sizes[len(j.Sizes)-1] }
