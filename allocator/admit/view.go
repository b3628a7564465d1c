package admit

import (
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

// Terms are under which a job of a question takes part in a plan.
type Terms struct {
	Now time.Time
	// Sizes are those of the job's sizes that it may be planned with.
	Sizes []int
	// Work is what is left of it, as time on one device; less than leastWork counts as that.
	Work time.Duration
	// Due is when it has to end; zero = it has no part in the plan.
	Due time.Time
	// Keeps says that it keeps its present workers, whatever the plan.
	Keeps bool
}

// starts is how many starts a change of a job's workers is charged: its own, and
// that of those that have to save first and make room.
const starts = 2

// leastWork is what is left of a job that only has to end.
const leastWork = time.Millisecond

// Of is a job of a question as a plan sees it, in seconds from now on; false if its
// end can no longer be planned: it is due, or its sizes are none.
func Of(v allocator.JobView, t Terms) (Job, bool) {
	j := Job{ID: v.ID, Work: max(t.Work, leastWork).Seconds(), Deadline: math.Inf(1)}
	if !t.Due.IsZero() {
		j.Deadline = t.Due.Sub(t.Now).Seconds()
	}
	if t.Keeps {
		t.Sizes = []int{v.Workers}
	}
	for _, k := range t.Sizes {
		j.Counts = append(j.Counts, k)
		j.Speeds = append(j.Speeds, speed(v, k))
		j.Pauses = append(j.Pauses, starts*v.StartCost(k).Seconds())
	}
	if slices.Contains(t.Sizes, v.Workers) {
		j.Present, j.Kept = v.Workers, t.Keeps
		j.Owed = max(0, v.Booting.Seconds())
	}
	if v.Promise != nil {
		j.Promised = v.Promise.Profile
	}
	return j, len(t.Sizes) > 0 && j.Deadline > 0
}

// speed is a job's at a size, relative to one device, as it certainly is.
func speed(v allocator.JobView, k int) float64 {
	i := slices.Index(v.Sizes, k)
	for _, s := range [][]float64{v.Careful, v.Speeds} {
		if i >= 0 && i < len(s) && s[i] > 0 {
			return s[i]
		}
	}
	return goodput.Default(k)
}
