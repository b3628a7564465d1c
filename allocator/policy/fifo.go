package policy

import "github.com/bellows-ml/bellows/allocator"

// fifo runs jobs in the order in which they were submitted, each at its full
// size, and no job passes another: the job at the head of the queue waits until
// enough devices are idle, and all others behind it. A running job is never
// halted. It is what a cluster without a scheduler does, and the baseline of
// Gavel (Narayanan et al., OSDI 2020), Muri and others.
func fifo() ranked {
	return ranked{
		name: "fifo", why: "first in the queue", patient: true, strict: true, timeless: true,
		before: func(x, y allocator.JobView) int { return 0 },
	}
}
