package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// outlook is a plan in the making.
type outlook struct {
	admit.Problem
	views map[cluster.JobID]allocator.JobView
	out   map[cluster.JobID]string    // those that cannot be planned, and why
	due   map[cluster.JobID]time.Time // ends in place of those that were planned
	plan  record.Promises             // as it is
	slot  int                         // of it that runs now
}

// foreseePromises is the problem of all promised jobs, with these ends instead of those planned.
func foreseePromises(in situation, due map[cluster.JobID]time.Time) outlook {
	plan := in.mirror.Promised.Value
	if !promising(in) || plan.Slot <= 0 { // no one's slots run
		plan.Origin, plan.Slot = in.now, cluster.Duration(in.cfg.Interval)
	}
	slot, left := plan.At(in.now)
	o := outlook{
		Problem: admit.Problem{Devices: promiseDevices(in), First: left.Seconds(), Slot: time.Duration(plan.Slot).Seconds()},
		views:   map[cluster.JobID]allocator.JobView{}, out: map[cluster.JobID]string{}, due: due, plan: plan, slot: slot,
	}
	for _, j := range in.jobs() {
		if _, ok := plan.Jobs[j.ID]; !ok && j.state().Pinned && j.state().Phase.Active() && mayBePromised(in, j) {
			o.Devices = max(0, o.Devices-j.has.Workers()) // it may keep them for long
		}
	}
	for _, id := range slices.Sorted(maps.Keys(plan.Jobs)) {
		j := in.find(id)
		if ended(j) {
			continue
		}
		p := plan.Jobs[id]
		at, ok := due[id]
		if !ok {
			at = p.Due
		}
		o.add(about(in, j), at)
	}
	return o
}

// ended reports whether nothing is promised to a job any more: it has ended, or its owner has asked for that.
func ended(j *job) bool { return j == nil || j.state().Phase.Terminal() || j.unwanted() }

// add takes a job into the problem.
func (o *outlook) add(in situation, due time.Time) {
	v := coming(in).On(promiseModel(in))
	if v.Workers > 0 && in.roll.AllFinished() {
		v.Work = allocator.Left(0)
	}
	o.views[v.ID] = v
	switch {
	case len(v.Sizes) == 0:
		o.out[v.ID] = "no world size is left to it"
	case !v.Work.Known:
		o.out[v.ID] = unknownWhy(in)
	case !in.now.Before(due):
		o.out[v.ID] = "it has passed"
	default:
		j, ok := admit.Of(v, o.terms(in, v, due))
		if !ok {
			o.out[v.ID] = fmt.Sprintf("it needs at least %s; %d are usable on nodes that can run it", count(v.Sizes[0], "device"), usableFor(in))
			return
		}
		o.Jobs = append(o.Jobs, j)
	}
}

// unknownWhy says why it is not known any more how much is left of a job, and what would have helped.
func unknownWhy(in situation) string {
	if spec := in.Spec.Value; spec.Steps == 0 && spec.ETA > 0 {
		return fmt.Sprintf("it has taken longer than --eta %s, so that how much is left of it is not known any more; a longer --eta, or --steps, would be planned with", spec.ETA)
	}
	return "how much is left of it is not known any more"
}

// terms are those under which a job is planned.
func (o *outlook) terms(in situation, v allocator.JobView, due time.Time) admit.Terms {
	t := admit.Terms{Now: in.now, Work: v.Work.Left, Due: due, Keeps: v.Workers > 0 && (v.Pinned || v.Finishing())}
	most := min(o.Devices, usableFor(in))
	for _, k := range in.cfg.PromiseSizes(v.Sizes) {
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

// coming is the job as decisions see it, with the workers that it is about to have.
func coming(in situation) allocator.JobView {
	v := asked(in)
	if t, ok := in.granted(in.ID); ok && t.Workers() > 0 && t.Workers() != v.Workers && slices.Contains(v.Sizes, t.Workers()) && !v.Pinned {
		v.Workers = t.Workers()
		v.Booting = v.StartCost(v.Workers)
	}
	return v
}

// usableFor is how many devices can be given to the job.
func usableFor(in situation) int {
	_, usable := devicesFor(in)
	return usable
}

// keeping is a plan, with the second chance of those that it cannot keep as planned.
type keeping struct{ *admit.Plan }

// renewed is the plan of the same jobs filled anew, or as it is where that would break a promise.
func (k keeping) renewed(o outlook) keeping {
	plan, err := admit.New(o.Problem)
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
