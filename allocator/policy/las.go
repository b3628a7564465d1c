package policy

import (
	"cmp"

	"github.com/bellows-ml/bellows/allocator"
)

// las runs the jobs that have attained the least service (device time) so far,
// each at its full size: short jobs finish early although their lengths are
// unknown (least attained service; for devices Tiresias, Gu et al.,
// NSDI 2019, section 3.2, 2D-LAS). Taken continuously, as here, equals that
// compete take turns at every interval; tiresias is made against that.
func las() promising {
	return promising{ranked{
		name: "las", why: "least attained device time",
		before: func(x, y allocator.JobView) int { return cmp.Compare(x.Service, y.Service) },
	}}
}
