package policy

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

// greedy is the greedy resource allocator of Hu et al., "An Optimal Resource
// Allocator of Elastic Training for Deep Learning Jobs on Cloud", section 3:
// always use everything. Its four scenarios:
//
//  1. Idle devices, waiting jobs: the first in the queue gets as many as
//     possible, and so on.
//  2. Idle devices, no waiting jobs: the job with the shortest training time grows
//     as far as possible, and so on.
//  3. No idle devices, waiting jobs: the job with the longest training time is
//     halved, and what it releases goes to the first in the queue.
//  4. Neither: nothing changes.
//
// What the paper leaves open is read as follows:
//
//   - Training time is how long a job has been trained so far: Figure 4 gives
//     the waiting job a training time of 0. Among equals the one with more
//     workers is halved, the one with fewer grows, then the earlier one.
//   - A decision goes on until the fourth scenario is reached, so that it does
//     not matter how often it is asked about an unchanged cluster.
//   - A job whose smallest size is more than what one halving releases gets it
//     from as many halvings as it needs; if all together would not do, none is
//     made and it waits, without holding up those behind it.
//   - A size is a power of two, so halving goes to the size next below.
//   - Between two intervals only the first scenario applies (section 2: if some
//     nodes are idle, the first in the queue starts with as many as possible).
//   - After a loss of devices the longest-trained jobs are halved until what is
//     left suffices; if no more halving is possible, the latest jobs wait.
type greedy struct{}

// Name implements allocator.Policy.
func (greedy) Name() string { return "greedy" }

// Timeless implements allocator.Timeless.
func (greedy) Timeless() bool { return true }

// Allocate implements allocator.Policy.
func (greedy) Allocate(in allocator.Input) allocator.Output {
	g := newGreedyDraft(in)
	g.shrinkToFit()
	for i := range g.jobs {
		if g.waiting(i) {
			g.start(i)
		}
	}
	if !in.Between {
		g.growAll()
	}
	return g.answer()
}

// greedyDraft is a draft that knows at any time which job to halve next, and what
// halving would release. All changes of its numbers go through change.
type greedyDraft struct {
	*draft
	releasable int   // devices that halving all jobs as far as possible would release
	halvable   queue // of jobs, as they were when they entered; outdated entries are skipped
}

func newGreedyDraft(in allocator.Input) *greedyDraft {
	g := &greedyDraft{draft: newDraft(in)}
	for i := range g.jobs {
		g.releasable += g.releases(i)
		g.offer(i)
	}
	return g
}

// change changes the number of job i by do.
func (g *greedyDraft) change(i int, do func()) {
	was, before := g.counts[i], g.releases(i)
	do()
	if g.counts[i] != was {
		g.releasable += g.releases(i) - before
		g.offer(i)
	}
}

// releases is how many devices halving job i as far as possible would release.
func (g *greedyDraft) releases(i int) int {
	if g.counts[i] == 0 || g.states[i].fixed {
		return 0
	}
	return g.counts[i] - g.smallest(i)
}

// offer has job i stand among those that can be halved, if it can.
func (g *greedyDraft) offer(i int) {
	if _, ok := g.below(i); ok {
		heap.Push(&g.halvable, queued{i, g.counts[i], g.jobs[i].Trained})
	}
}

// shrinkToFit reduces what is in force to the devices that there are.
func (g *greedyDraft) shrinkToFit() {
	last := len(g.jobs) - 1
	for !g.fits() {
		if i := g.longest(); i >= 0 {
			g.halve(i, "devices were lost")
			continue
		}
		for last >= 0 && (g.counts[last] == 0 || g.states[last].fixed) {
			last--
		}
		if last < 0 {
			return // only jobs that must keep their world are left
		}
		g.change(last, func() { g.set(last, 0) })
	}
}

// start is scenarios 1 and 3 for the first job in the queue.
func (g *greedyDraft) start(i int) {
	if g.raiseTo(i) {
		g.why[i] = "first in the queue: as many devices as are idle"
		return
	}
	if g.in.Between || g.idle+g.releasable < g.smallest(i) {
		return
	}
	type halving struct {
		job, was int
		why      string
	}
	var halved []halving
	for {
		k := g.longest()
		if k < 0 {
			for _, h := range slices.Backward(halved) {
				g.change(h.job, func() { g.put(h.job, h.was) })
				g.why[h.job] = h.why
			}
			return
		}
		halved = append(halved, halving{k, g.counts[k], g.why[k]})
		g.halve(k, string(g.jobs[i].ID)+" waits for devices")
		if g.raiseTo(i) {
			g.why[i] = "first in the queue: what others released"
			return
		}
	}
}

func (g *greedyDraft) raiseTo(i int) (raised bool) {
	g.change(i, func() { raised = g.raise(i) })
	return raised
}

// longest is the longest-trained job that can be halved, or -1.
func (g *greedyDraft) longest() int {
	for len(g.halvable) > 0 {
		if q := g.halvable[0]; q.workers == g.counts[q.job] {
			return q.job
		}
		heap.Pop(&g.halvable)
	}
	return -1
}

func (g *greedyDraft) halve(i int, why string) {
	half, _ := g.below(i)
	g.change(i, func() { g.set(i, half) })
	g.why[i] = fmt.Sprintf("halved, as it has trained the longest (%s) and %s", g.jobs[i].Trained.Round(time.Second), why)
}

// growAll is scenario 2; each job has one turn.
func (g *greedyDraft) growAll() {
	var order []int
	for i, c := range g.counts {
		if c > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, k int) int {
		return cmp.Or(cmp.Compare(g.jobs[i].Trained, g.jobs[k].Trained), g.counts[i]-g.counts[k])
	})
	for _, i := range order {
		if g.idle > 0 && g.raiseTo(i) && g.jobs[i].Workers > 0 {
			g.why[i] = fmt.Sprintf("shortest training time (%s): grows onto idle devices", g.jobs[i].Trained.Round(time.Second))
		}
	}
}

// queued is a job that can be halved, with the number that it had then.
type queued struct {
	job, workers int
	trained      time.Duration
}

// queue is a heap of jobs: the longest-trained first, of equals the largest, then the earliest.
type queue []queued

func (q queue) Len() int { return len(q) }
func (q queue) Less(x, y int) bool {
	return cmp.Or(cmp.Compare(q[y].trained, q[x].trained), q[y].workers-q[x].workers, q[x].job-q[y].job) < 0
}
func (q queue) Swap(x, y int) { q[x], q[y] = q[y], q[x] }
func (q *queue) Push(x any)   { *q = append(*q, x.(queued)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
