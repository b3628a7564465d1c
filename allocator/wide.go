package allocator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// A job for which no model has devices enough, and that may have several models at once, is wide.
// The policy is asked about wide jobs first, with the devices of all models as one pool and all other
// jobs beside them, so that what it promises of turns and waits holds for them too. What it gives
// them is set aside, and the pools share the rest. While one waits, what the policy leaves idle
// is set aside as well, up to what the job needs: else pools would start jobs there that the
// policy holds back for its sake, and it might wait for ever.

// isWide reports whether a job is decided about before the pools are.
func (q *pools) isWide(i int) bool {
	j, s := q.in.Jobs[i], &q.jobs[i]
	return j.Mixed && len(s.options) == 0 && (s.kept || q.whole.UsableFor(j) >= j.Sizes[0])
}

// decideWide asks about the wide jobs, if there are any.
func (q *pools) decideWide() error {
	in := q.in
	in.Jobs, in.Memory = nil, nil
	var of []int
	wide := false
	for i, j := range q.in.Jobs {
		s := &q.jobs[i]
		s.wide = q.isWide(i)
		if wide = wide || s.wide; len(s.options) == 0 && !s.kept && !s.wide {
			continue // it cannot start, and nothing waits for it
		}
		j.Models = nil
		j.Pinned = j.Pinned || s.kept && !s.wide // it keeps its devices in any case
		in.Jobs, of = append(in.Jobs, j), append(of, i)
	}
	if !wide {
		return nil
	}
	out, err := run(q.p, in)
	if err != nil {
		return fmt.Errorf("devices of all models: %w", err)
	}
	c := claims{pools: q, stay: map[cluster.DeviceID]bool{}, held: map[cluster.DeviceID]int{}}
	idle := q.whole.Usable()
	for k, d := range out.Decisions {
		stays := d.Workers == in.Jobs[k].Workers && q.whole.Stays(in.Jobs[k])
		for id := range q.whole.Held(in.Jobs[k]) {
			if c.held[id] = of[k]; stays {
				c.stay[id] = true
				idle--
			}
		}
		if !stays {
			idle -= d.Workers
		}
		if s := &q.jobs[of[k]]; s.wide {
			s.kept = stays
		}
	}
	for k, d := range out.Decisions {
		s := &q.jobs[of[k]]
		if s.wide && !s.kept && d.Workers > 0 && !c.claim(of[k], d, d.Workers) {
			d = Decision{Job: d.Job, Reason: fmt.Sprintf("waits: needs at least %d devices of any model", in.Jobs[k].Sizes[0])}
		}
		if s.wide && d.Workers == 0 {
			n := min(max(0, idle), in.Jobs[k].Sizes[0])
			c.claim(of[k], d, n)
			idle -= n
		}
		s.decision = d
	}
	return nil
}

// claims sets devices aside for wide jobs.
type claims struct {
	*pools
	stay map[cluster.DeviceID]bool // with jobs that keep what they have
	held map[cluster.DeviceID]int  // by which job, of the whole question
}

// claim sets n devices aside for a job: its own, then idle ones, then those of jobs that go;
// of equals those of the model that has most of them. It reports whether there were so many.
func (c *claims) claim(i int, d Decision, n int) bool {
	type free struct {
		id         cluster.DeviceID
		turn, pool int
	}
	var open []free
	closed, count := d.Closed(c.in.Nodes, c.in.Jobs[i].Excluded), make([]int, len(c.of))
	for m, o := range c.of {
		for _, node := range o.in.Nodes {
			if slices.Contains(closed, node.ID) {
				continue
			}
			for _, id := range node.Usable() {
				if c.stay[id] || c.aside[id] {
					continue
				}
				turn := 1
				if by, taken := c.held[id]; taken && by == i {
					turn = 0
				} else if taken {
					turn = 2
				}
				open = append(open, free{id, turn, m})
				count[m]++
			}
		}
	}
	if len(open) < n {
		return false
	}
	slices.SortStableFunc(open, func(a, b free) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(count[b.pool], count[a.pool]))
	})
	for _, x := range open[:n] {
		c.aside[x.id] = true
	}
	return true
}

// wideDecision is what was decided about a wide job.
func (q *pools) wideDecision(i int) Decision {
	j, d := q.in.Jobs[i], q.jobs[i].decision
	if d.Workers > 0 && !q.jobs[i].kept {
		why := fmt.Sprintf("on several models of devices, as none has %d", j.Sizes[0])
		if d.Reason != "" {
			why += ": " + d.Reason
		}
		d.Reason = why
	}
	return d
}
