package policy

import (
	"cmp"
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

// tiresiasLimits are the attained device times at which a job falls into the
// next queue: those that the simulators of Muri and its successors use for
// Tiresias-L, 3250 and 7200 device seconds.
var tiresiasLimits = [...]time.Duration{3250 * time.Second, 7200 * time.Second}

// tiresias is discretised least attained service (Tiresias-L, Gu et al., NSDI
// 2019, section 3.2): jobs fall from queue to queue as they attain device time.
// A job of a higher queue goes first; within a queue those that run go on, and
// the others follow as they were submitted, so that equals do not take turns.
func tiresias() promising {
	return promising{ranked{
		name: "tiresias", why: "attained little device time",
		before: func(x, y allocator.JobView) int {
			return cmp.Or(cmp.Compare(tiresiasQueue(x), tiresiasQueue(y)), compareBools(y.Workers > 0, x.Workers > 0))
		},
	}}
}

func tiresiasQueue(j allocator.JobView) int {
	for q, limit := range tiresiasLimits {
		if j.Service < limit {
			return q
		}
	}
	return len(tiresiasLimits)
}
