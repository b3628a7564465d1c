package policy

import (
	"cmp"
	"container/heap"
)

// distribute gives devices to the jobs step by step: the job with the largest gain
// for each further device takes its next size, until nothing fits or gains any
// more. gain is what job i gains from one of its sizes (or 0) to the next; equals
// go in the order of the queue. A job whose next size does not fit drops out.
func (d *draft) distribute(jobs []int, gain func(i, from, to int) float64) {
	var candidates candidates
	push := func(i int) {
		to, ok := d.above(i)
		if !ok {
			return
		}
		if per := gain(i, d.counts[i], to) / float64(to-d.counts[i]); per > 0 {
			heap.Push(&candidates, candidate{i, to, per})
		}
	}
	for _, i := range jobs {
		push(i)
	}
	for len(candidates) > 0 && d.idle > 0 {
		r := heap.Pop(&candidates).(candidate)
		if d.set(r.job, r.to) {
			push(r.job)
		}
	}
}

// candidate is the next size of a job, and what each further device would gain.
type candidate struct {
	job, to int
	per     float64
}

type candidates []candidate

func (r candidates) Len() int { return len(r) }
func (r candidates) Less(x, y int) bool {
	return cmp.Or(cmp.Compare(r[y].per, r[x].per), cmp.Compare(r[x].job, r[y].job)) < 0
}
func (r candidates) Swap(x, y int) { r[x], r[y] = r[y], r[x] }
func (r *candidates) Push(x any)   { *r = append(*r, x.(candidate)) }
func (r *candidates) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}
