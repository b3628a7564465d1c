package policy

import (
	"cmp"

	"github.com/bellows-ml/bellows/allocator"
)

// srsf runs the jobs with the least remaining service: remaining time at the
// full size, times that size. Unlike srtf it counts what a job takes from the
// others (Tiresias, Gu et al., NSDI 2019, section 3.2; Muri).
func srsf() promising {
	return promising{ranked{
		name: "srsf", why: "least remaining device time",
		before: func(x, y allocator.JobView) int {
			return cmp.Compare(remainingTime(x)*float64(fullSize(x)), remainingTime(y)*float64(fullSize(y)))
		},
	}}
}
