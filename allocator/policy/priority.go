package policy

import (
	"cmp"

	"github.com/bellows-ml/bellows/allocator"
)

// priority runs the jobs of the highest priority, each at its full size; among
// equals the earlier one. A job of lower priority is halted when one of higher
// priority needs its devices: the preemptive priority queue of batch schedulers
// such as Slurm.
func priority() promising {
	return promising{ranked{
		name: "priority", why: "highest priority", timeless: true,
		before: func(x, y allocator.JobView) int { return cmp.Compare(y.Priority, x.Priority) },
	}}
}
