package policy

import (
	"cmp"
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
	g := greedyDraft{newDraft(in)}
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

type greedyDraft struct{ *draft }

// shrinkToFit reduces what is in force to the devices that there are.
func (g greedyDraft) shrinkToFit() {
	for !g.fits() {
		if i := g.longest(); i >= 0 {
			g.halve(i, "devices were lost")
			continue
		}
		last := -1
		for i := range g.jobs {
			if g.counts[i] > 0 && !g.states[i].fixed {
				last = i
			}
		}
		if last < 0 {
			return // only jobs that must keep their world are left
		}
		g.set(last, 0)
	}
}

// start is scenarios 1 and 3 for the first job in the queue.
func (g greedyDraft) start(i int) {
	if g.raise(i) {
		g.why[i] = "first in the queue: as many devices as are idle"
		return
	}
	if g.in.Between || g.idle+g.releasable() < g.smallest(i) {
		return
	}
	counts, why := append([]int(nil), g.counts...), append([]string(nil), g.why...)
	for {
		k := g.longest()
		if k < 0 {
			for x := range counts {
				g.put(x, counts[x])
			}
			copy(g.why, why)
			return
		}
		g.halve(k, string(g.jobs[i].ID)+" waits for devices")
		if g.raise(i) {
			g.why[i] = "first in the queue: what others released"
			return
		}
	}
}

// releasable is how many devices halving all jobs would release.
func (g greedyDraft) releasable() int {
	n := 0
	for i, c := range g.counts {
		if c > 0 && !g.states[i].fixed {
			n += c - g.smallest(i)
		}
	}
	return n
}

// longest is the longest-trained job that can be halved, or -1.
func (g greedyDraft) longest() int {
	return g.choose(func(i int) bool { _, ok := g.below(i); return ok }, func(i, k int) bool {
		if x, y := g.jobs[i].Trained, g.jobs[k].Trained; x != y {
			return x > y
		}
		return g.counts[i] > g.counts[k]
	})
}

func (g greedyDraft) halve(i int, why string) {
	half, _ := g.below(i)
	g.set(i, half)
	g.why[i] = fmt.Sprintf("halved, as it has trained the longest (%s) and %s", g.jobs[i].Trained.Round(time.Second), why)
}

// growAll is scenario 2; each job has one turn.
func (g greedyDraft) growAll() {
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
		if g.idle > 0 && g.raise(i) && g.jobs[i].Workers > 0 {
			g.why[i] = fmt.Sprintf("shortest training time (%s): grows onto idle devices", g.jobs[i].Trained.Round(time.Second))
		}
	}
}
