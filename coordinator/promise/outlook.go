package promise

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// outlook is a plan in the making.
type outlook struct {
	admit.Problem
	out map[cluster.JobID]string    // those that cannot be planned, and why
	due map[cluster.JobID]time.Time // ends in place of those that were planned
}

// outlook is the problem of all promised jobs, with these ends instead of those planned.
func (c *Cluster) outlook(due map[cluster.JobID]time.Time) outlook {
	plan, _, left := c.running()
	o := outlook{
		Problem: admit.Problem{Devices: c.plannable(), First: left.Seconds(), Slot: time.Duration(plan.Slot).Seconds()},
		out:     map[cluster.JobID]string{}, due: due,
	}
	for _, id := range slices.Sorted(maps.Keys(c.Jobs)) {
		at, ok := due[id]
		if !ok {
			at = plan.Jobs[id].Due
		}
		if j, why := c.planned(c.Jobs[id], at); why == "" {
			o.Jobs = append(o.Jobs, j)
		} else {
			o.out[id] = why
		}
	}
	return o
}

// running is the plan with its slots as they run now: which one, and what is left of it.
func (c *Cluster) running() (plan record.Promises, slot int, left time.Duration) {
	plan = c.Plan
	if !c.Standing() || plan.Slot <= 0 { // no one's slots run
		plan.Origin, plan.Slot = c.Now, cluster.Duration(c.Interval)
	}
	slot, left = plan.At(c.Now)
	return plan, slot, left
}

// planned is a job as it is planned to end by a moment, or why it cannot be.
func (c *Cluster) planned(j Job, due time.Time) (admit.Job, string) {
	v := j.View
	switch {
	case len(v.Sizes) == 0:
		return admit.Job{}, "no world size is left to it"
	case !v.Work.Known && j.Spec.Steps == 0 && j.Spec.ETA > 0:
		return admit.Job{}, fmt.Sprintf("it has taken longer than --eta %s, so that how much is left of it is not known any more; a longer --eta, or --steps, would be planned with", j.Spec.ETA)
	case !v.Work.Known:
		return admit.Job{}, "how much is left of it is not known any more"
	case !c.Now.Before(due):
		return admit.Job{}, "it has passed"
	}
	out, ok := admit.Of(v, c.terms(j, due))
	if !ok {
		return admit.Job{}, fmt.Sprintf("it needs at least %s; %d are usable on nodes that can run it", units.Count(v.Sizes[0], "device"), j.Usable)
	}
	return out, ""
}

// terms are those under which a job is planned.
func (c *Cluster) terms(j Job, due time.Time) admit.Terms {
	v := j.View
	t := admit.Terms{Now: c.Now, Work: v.Work.Left, Due: due, Keeps: v.Workers > 0 && (v.Pinned || v.Finishing())}
	most := min(c.plannable(), j.Usable)
	for _, k := range c.Sizes(v.Sizes) {
		if k <= most {
			t.Sizes = append(t.Sizes, k)
		}
	}
	if len(t.Sizes) == 0 { // the largest does not fit, and of a policy of full sizes there is no other
		for _, k := range v.Sizes {
			if k <= most {
				t.Sizes = []int{k}
			}
		}
	}
	return t
}

// keeping is a plan, with the second chance of those that it cannot keep as planned.
type keeping struct{ *admit.Plan }

// renewed is the plan of the same jobs filled anew, or as it is where that would break a promise.
func (k keeping) renewed(p admit.Problem) keeping {
	plan, err := admit.New(p)
	if err != nil || k.Plan == nil {
		return k
	}
	for id := range k.Profiles {
		if _, ok := plan.Kept(id); !ok {
			return k
		}
	}
	return keeping{plan}
}

func (k keeping) profile(id cluster.JobID) (cluster.Profile, bool) {
	if k.Plan == nil {
		return nil, false
	}
	return k.Kept(id)
}
