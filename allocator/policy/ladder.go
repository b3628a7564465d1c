package policy

import (
	"cmp"
	"container/heap"
)

// ladder hands devices out rung by rung: again and again the job with the
// largest gain for each further device takes its next size, until nothing fits
// or gains any more. gain says what job i gains from going from one of its sizes
// (or 0) to the next; equals go in the order of the queue. A job whose next size
// does not fit drops out.
func (d *desk) ladder(jobs []int, gain func(i, from, to int) float64) {
	var rungs rungs
	push := func(i int) {
		to, ok := d.above(i)
		if !ok {
			return
		}
		if per := gain(i, d.counts[i], to) / float64(to-d.counts[i]); per > 0 {
			heap.Push(&rungs, rung{i, to, per})
		}
	}
	for _, i := range jobs {
		push(i)
	}
	for len(rungs) > 0 && d.idle > 0 {
		r := heap.Pop(&rungs).(rung)
		if d.set(r.job, r.to) {
			push(r.job)
		}
	}
}

// rung is the next size of a job, and what each device more would gain.
type rung struct {
	job, to int
	per     float64
}

type rungs []rung

func (r rungs) Len() int { return len(r) }
func (r rungs) Less(x, y int) bool {
	return cmp.Or(cmp.Compare(r[y].per, r[x].per), cmp.Compare(r[x].job, r[y].job)) < 0
}
func (r rungs) Swap(x, y int) { r[x], r[y] = r[y], r[x] }
func (r *rungs) Push(x any)   { *r = append(*r, x.(rung)) }
func (r *rungs) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}
