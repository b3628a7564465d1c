package lookahead

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// coming are the jobs that are to come in one future: those that came lately, once more. How
// lately differs: the shortest memory makes the first future go on as the last minutes went,
// the longest one takes all that is known as equally likely. Where a window is over, one of twice its
// length follows, for bursts end.
type coming struct {
	q      Question
	jobs   []allocator.JobView // of the present window, that have not come yet
	came   int
	begin  time.Time     // of the next window
	window time.Duration // its length; 0 = none comes
	offset float64       // at which share of a window it begins
}

const (
	// shortestMemory is the shortest window of time that comes again.
	shortestMemory = 5 * time.Minute
	// golden has the futures begin at moments of their windows that are spread evenly.
	golden = 0.6180339887498949
)

// comeAgain are the jobs that come in the i-th of n futures.
func comeAgain(q Question, i, n int) coming {
	whole := q.Input.Now.Sub(q.Since)
	if len(q.Arrivals) == 0 || whole <= 0 {
		return coming{}
	}
	c := coming{q: q, begin: q.Input.Now}
	least := min(shortestMemory, whole)
	c.window = time.Duration(float64(least) * math.Pow(float64(whole)/float64(least), (float64(i)+0.5)/float64(n)))
	_, c.offset = math.Modf(float64(i) * golden)
	return c
}

// fill takes in the jobs of the next window.
func (c *coming) fill() {
	from := c.q.Input.Now.Add(-c.window)
	shift := time.Duration(c.offset * float64(c.window))
	for _, v := range c.q.Arrivals {
		if after := v.SubmittedAt.Sub(from); after > 0 {
			if after -= shift; after <= 0 {
				after += c.window
			}
			v.SubmittedAt = c.begin.Add(after)
			c.jobs = append(c.jobs, v)
		}
	}
	slices.SortStableFunc(c.jobs, func(a, b allocator.JobView) int { return a.SubmittedAt.Compare(b.SubmittedAt) })
	c.begin = c.begin.Add(c.window)
	c.window = min(2*c.window, c.q.Input.Now.Sub(c.q.Since))
}

// next is when the next job comes; false if none does by a time.
func (c *coming) next(until time.Time) (time.Time, bool) {
	if c.window <= 0 {
		return time.Time{}, false
	}
	for len(c.jobs) == 0 {
		if c.begin.After(until) {
			return time.Time{}, false
		}
		c.fill()
	}
	return c.jobs[0].SubmittedAt, true
}

// take is the next job, with an identifier of its own.
func (c *coming) take() allocator.JobView {
	v := c.jobs[0]
	c.jobs = c.jobs[1:]
	c.came++
	v.ID = cluster.JobID(fmt.Sprintf("%s+%d", v.ID, c.came))
	return v
}
