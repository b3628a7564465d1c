package policy

import (
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
)

// served are the jobs that have more devices than before a decision because that was
// promised, in the order in which they were given them.
type served struct {
	jobs    []int
	claimed int // devices that these have more
	spare   int // devices that were idle before the decision
}

// note takes in those of the jobs that have more than before, with these numbers, and were promised something.
func (s *served) note(jobs []allocator.JobView, counts, order []int) {
	for _, i := range order {
		if j := jobs[i]; j.Promise != nil && counts[i] > j.Workers {
			s.jobs = append(s.jobs, i)
			s.claimed += counts[i] - j.Workers
		}
	}
}

// reason says what promises have to do with the number of job i; empty if nothing.
func (s *served) reason(jobs []allocator.JobView, counts []int, i int) string {
	switch n := len(s.jobs); {
	case n == 0:
		return ""
	case slices.Contains(s.jobs, i):
		return "promised for its deadline"
	case counts[i] >= jobs[i].Workers || s.claimed <= s.spare: // they took what was idle
		return ""
	case n == 1:
		return fmt.Sprintf("gives way to %s, whose deadline is promised", jobs[s.jobs[0]].ID)
	default:
		return fmt.Sprintf("gives way to %s and %d more, whose deadlines are promised", jobs[s.jobs[0]].ID, n-1)
	}
}
