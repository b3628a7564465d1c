package solve

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// maxItems is how many finishing jobs the search is about: those that lose least by a change.
const maxItems = 400

// core lists the near-best plans of the finishing jobs: what labels searches.
type core struct {
	items  []coreItem
	alts   []alternative
	found  []alternative // scratch: of one job
	chosen []uint8       // by item: the alternative of the cheapest combination found
}

// coreItem is a job and its alternatives [from, to), the first of which is its best plan.
type coreItem struct {
	job, from, to int
	less          float64
}

type alternative struct {
	loss float64
	plan [maxSteps]uint8
	more [maxSteps]int // devices more than the best plan's
}

// gather lists the plans of each finishing job that lose less than limit.
// A job that no such plan finishes counts as unfinished from here on. gather
// returns the least that any omitted plan loses.
func (c *core) gather(s *Solver, limit float64, most int) (cut float64) {
	cut = limit
	c.items, c.alts = c.items[:0], c.alts[:0]
	tab := &s.table
	for i := range s.jobs {
		j := &s.jobs[i]
		s.unfinished[i] = j.kind == endless
		if j.kind != finishing {
			continue
		}
		over := tab.overrun(j, &s.prices)
		if tab.value(j, &s.prices)-over >= limit {
			s.unfinished[i] = true
			continue
		}
		c.found = c.found[:0]
		c.walk(s, walk{job: j, table: tab, limit: limit})
		cut = min(cut, c.removeDominated(s, j, most))
		s.best[i] = c.found[0].plan
		if len(c.found) == 1 {
			continue
		}
		item := coreItem{job: i, from: len(c.alts), less: c.found[1].loss}
		c.alts = append(c.alts, c.found...)
		item.to = len(c.alts)
		c.items = append(c.items, item)
	}
	slices.SortFunc(c.items, func(x, y coreItem) int { return cmp.Or(cmp.Compare(x.less, y.less), x.job-y.job) })
	if len(c.items) > maxItems {
		cut = min(cut, c.items[maxItems].less)
		c.items = c.items[:maxItems]
	}
	return cut
}

// removeDominated sorts the plans that a walk has found and removes those that
// another one dominates: it needs no more devices in any step and, even if the
// devices that it does not need are idle, loses no more. At most so many are
// kept; cut is the least that one removed for that reason loses.
func (c *core) removeDominated(s *Solver, j *job, most int) (cut float64) {
	cut = math.Inf(1)
	slices.SortFunc(c.found, func(x, y alternative) int {
		return cmp.Or(cmp.Compare(x.loss, y.loss), bytes.Compare(x.plan[:], y.plan[:]))
	})
	kept := 0
next:
	for n := range c.found {
		a := c.found[n]
		if kept == most {
			cut = a.loss
			break
		}
		for t := range s.p.Steps {
			a.more[t] = s.p.Counts[j.low+int(a.plan[t])] - s.p.Counts[j.low+int(c.found[0].plan[t])]
		}
		for k := range kept {
			if s.dominated(&a, &c.found[k]) {
				continue next
			}
		}
		c.found[kept] = a
		kept++
	}
	c.found = c.found[:kept]
	return cut
}

// dominated reports whether b does as well as a with no more devices.
func (s *Solver) dominated(a, b *alternative) bool {
	loss := b.loss
	for t := range s.p.Steps {
		less := a.more[t] - b.more[t]
		if less < 0 {
			return false
		}
		loss += float64(less) * s.lambda[t]
	}
	return loss <= a.loss+1e-12
}

// walk is a position in the enumeration of a job's plans.
type walk struct {
	job   *job
	table *table
	limit float64
	at    int32
	t     int
	loss  float64
	plan  [maxSteps]uint8
}

// walk enumerates the plans that lose less than the limit. After a job has
// finished it has its least number: more is never better.
func (c *core) walk(s *Solver, w walk) {
	shape := w.job.shape
	if w.t == shape.steps {
		c.found = append(c.found, alternative{loss: w.loss, plan: w.plan})
		return
	}
	options := shape.options
	if w.t > 0 && w.job.sums[w.at]*w.job.scale >= 1 {
		options = 1
	}
	best := w.table.togo[w.at]
	at, loss := w.at, w.loss
	for k := range options {
		child := shape.child[int(at)*shape.options+k]
		v := w.table.with[child] - s.prices.cost[w.t*maxCounts+w.job.low+k]
		if w.t == 0 && k == w.job.present {
			v += w.job.bonus
		}
		if options == 1 {
			v = best
		}
		if next := loss + (best - v); next < w.limit {
			x := w
			x.at, x.t, x.loss = child, w.t+1, next
			x.plan[w.t] = uint8(k)
			c.walk(s, x)
		}
		if w.job.sums[child]*w.job.scale >= 1 && (w.t > 0 || w.job.present < 0) {
			break // with more devices it would finish no sooner, and gain no bonus
		}
	}
}

// spare is how many devices each step has left if each job has its plan in best.
func (s *Solver) spare() (spare [maxSteps]int) {
	for t := range s.p.Steps {
		spare[t] = s.p.Devices
		for i := range s.jobs {
			spare[t] -= s.p.Counts[s.jobs[i].low+int(s.best[i][t])]
		}
	}
	return spare
}

// assign writes the chosen alternatives into the plans, and the cheapest plans
// of the unfinished jobs with the remaining devices.
func (c *core) assign(s *Solver) {
	spare := s.spare()
	for n, k := range c.chosen {
		a := &c.alts[c.items[n].from+int(k)]
		s.best[c.items[n].job] = a.plan
		for t := range s.p.Steps {
			spare[t] -= a.more[t]
		}
	}
	for t := range s.p.Steps {
		s.decoupled.steps[t].assign(s, t, spare[t])
	}
}
