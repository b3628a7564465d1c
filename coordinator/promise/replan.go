package promise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
)

// A deadline with a grace is a soft one: an end within the grace is of use still, the less
// the later it comes. So what cannot be promised by the deadline is promised by the earliest
// moment in the grace (promiseLate), and a promise that cannot be kept any more is moved into it, as little
// as will do, before it is broken. See ADR 54.

// replan goes on with the plan. A job that misses the end which was planned for it may end
// later, as far as its promise and its grace allow.
func (c *Cluster) replan() (outlook, keeping) {
	o, kept := c.relaxed(map[cluster.JobID]time.Time{})
	return c.spared(o, kept)
}

// relaxed is the plan with these ends, in which jobs that miss theirs end as late as they may.
func (c *Cluster) relaxed(due map[cluster.JobID]time.Time) (outlook, keeping) {
	for {
		o := c.outlook(due)
		plan, err := admit.Follow(o.Problem)
		if err != nil {
			return o, keeping{}
		}
		late := 0
		for id := range c.Jobs {
			if _, ok := plan.Kept(id); ok {
				continue
			}
			if at, ok := c.relaxation(id, due[id]); ok {
				due[id] = at
				late++
			}
		}
		if late == 0 {
			return o, keeping{plan}
		}
	}
}

// graceSteps is in how many a promise moves through the whole of a grace.
const graceSteps = 4

// relaxation is by when a promised job may end that cannot by another moment, zero for that
// which was planned; false if no later.
func (c *Cluster) relaxation(id cluster.JobID, at time.Time) (time.Time, bool) {
	p, spec := c.Plan.Jobs[id], c.Jobs[id].Spec
	switch latest := spec.Latest(); {
	case at.IsZero():
		return p.Deadline, true
	case at.Before(latest):
		at = at.Add(time.Duration(spec.Grace) / graceSteps)
		if at.After(latest) || latest.Sub(at) < time.Second {
			at = latest
		}
		return at, true
	}
	return at, false
}

// mostGivingWay bounds how many jobs are tried to save the promises of others.
const mostGivingWay = 16

// spared is a plan in which jobs that have a grace left give way to promises that would be
// broken: those of the lowest priority first, whose late ends are worth least, until none is
// broken. One whose profile stands ends as it was to. It is the given plan where that saves none.
func (c *Cluster) spared(o outlook, kept keeping) (outlook, keeping) {
	broken := c.breaking(kept)
	if broken == 0 || kept.Plan == nil {
		return o, kept
	}
	due := maps.Clone(o.due)
	for _, id := range c.patient(kept) {
		due[id] = c.Jobs[id].Spec.Latest()
		other, otherKept := c.relaxed(maps.Clone(due))
		if n := c.breaking(otherKept); n < broken {
			o, kept, broken = other, otherKept, n
		}
		if broken == 0 {
			break
		}
	}
	return o, kept
}

// breaking is how many promises that stand are not kept by a plan.
func (c *Cluster) breaking(kept keeping) (n int) {
	for id := range c.Jobs {
		if _, ok := kept.profile(id); !ok && c.Plan.Jobs[id].Broken == "" {
			n++
		}
	}
	return n
}

// patient are the jobs of a plan that have a grace left, those that give way first first.
func (c *Cluster) patient(kept keeping) []cluster.JobID {
	var out []cluster.JobID
	for _, id := range slices.Sorted(maps.Keys(c.Jobs)) {
		if _, ok := kept.profile(id); ok && c.Plan.Jobs[id].Deadline.Before(c.Jobs[id].Spec.Latest()) {
			out = append(out, id)
		}
	}
	slices.SortStableFunc(out, func(a, b cluster.JobID) int {
		return cmp.Compare(c.Jobs[a].Spec.Priority, c.Jobs[b].Spec.Priority)
	})
	return out[:min(len(out), mostGivingWay)]
}

// lateWhy says that a promise has moved into the job's grace.
func (c *Cluster) lateWhy(o outlook, id cluster.JobID) string {
	return fmt.Sprintf("%s cannot be kept with %s beside what others were promised: promised by %s now, within its grace, which lasts until %s",
		moment(c.Plan.Jobs[id].Deadline), units.Count(o.Devices, "usable device"), moment(o.due[id]), moment(c.Jobs[id].Spec.Latest()))
}
