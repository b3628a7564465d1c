package promise

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// A Revision is the plan as it has to be now, and what one job's owner is told of it.
type Revision struct {
	Plan record.Promises
	// Event is about the one promise that was moved, broken or found to be possible again; Kind "" = none was. The turn of others comes with the next review.
	Event record.Event
}

// Review looks whether all that is promised can still be had as planned, and makes
// the plan anew where not: with other devices for those that need them and, where
// nothing helps, with a word to the owner of each deadline that cannot be kept. Jobs
// that have ended leave it, and all others are filled anew then. False: the plan stays as it is.
func Review(c Cluster) (Revision, bool) {
	o, kept := c.replan()
	if len(c.Jobs) < len(c.Plan.Jobs) { // what those that have ended leave goes to the others
		kept = kept.renewed(o.Problem)
	}
	slot, _ := c.Plan.At(c.Now)
	r := Revision{Plan: after(c.Plan, slot)}
	changed := len(c.Jobs) < len(c.Plan.Jobs)
	for _, id := range slices.Sorted(maps.Keys(c.Jobs)) {
		p := c.Plan.Jobs[id]
		profile, ok := kept.profile(id)
		switch by := o.due[id]; {
		case ok && by.After(p.Deadline) && r.Plan.End(profile).After(p.Deadline):
			changed = true
			if p.Profile = p.Profile.After(slot); r.Event.Kind == "" { // else its turn comes with the next
				r.Event = record.Event{Kind: record.DeadlineLate, Job: id, Why: reason.Of(reason.New(reason.DeadlineMoved, "said", c.lateWhy(o, id)))}
				p = record.Promise{Deadline: by, Due: by, Profile: profile}
			}
		case ok && (p.Broken != "" || !slices.Equal(profile, p.Profile.After(slot))):
			changed = true
			if p.Broken != "" && r.Event.Kind == "" {
				r.Event = record.Event{Kind: record.DeadlineKept, Job: id, Why: reason.Of(reason.New(reason.DeadlineKept, "deadline", moment(p.Deadline)))}
				p.Broken, p.Profile = "", profile
			} else if p.Broken == "" {
				p.Profile = profile
			}
		case ok:
			p.Profile = profile
		case p.Broken == "" && r.Event.Kind == "":
			changed = true
			p.Broken, p.Profile = c.brokenWhy(o, kept, id), nil
			r.Event = record.Event{Kind: record.DeadlineBroken, Job: id, Why: reason.Of(reason.New(reason.DeadlineBroken, "said", p.Broken))}
		default:
			p.Profile = p.Profile.After(slot) // its turn comes with the next
		}
		r.Plan.Jobs[id] = p
	}
	return r, changed
}

// brokenWhy says why a deadline cannot be kept, and what would still save it.
func (c *Cluster) brokenWhy(o outlook, kept keeping, id cluster.JobID) string {
	why, planned := o.out[id]
	if !planned {
		why = fmt.Sprintf("what is left of it is more than %s can do beside what others were promised", units.Count(o.Devices, "usable device"))
	}
	why = fmt.Sprintf("%s: %s", moment(c.Plan.Jobs[id].Deadline), why)
	i := slices.IndexFunc(o.Jobs, func(j admit.Job) bool { return j.ID == id })
	if i < 0 || kept.Plan == nil {
		return why
	}
	j := o.Jobs[i]
	j.Promised, j.Kept = nil, false
	if end := kept.Offer(j, j).Deadline; end > 0 {
		why += fmt.Sprintf("; as it is it would end by %s; nodes that come back, or jobs that are stopped, would save it", moment(c.endingBy(c.Jobs[id], end)))
	} else {
		why += "; only more devices would save it"
	}
	return why
}
