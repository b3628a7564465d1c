package policy

import (
	"cmp"

	"github.com/bellows-ml/bellows/allocator"
)

// srtf runs the jobs with the shortest remaining time at their full size. It
// minimises the mean completion time on one device (Schrage, Operations Research
// 16(3), 1968) and is the informed baseline of Muri (Zhao et al., SIGCOMM 2022).
func srtf() promising {
	return promising{ranked{
		name: "srtf", why: "shortest remaining time",
		before: func(x, y allocator.JobView) int { return cmp.Compare(remainingTime(x), remainingTime(y)) },
	}}
}
