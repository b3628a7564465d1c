package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// review looks whether all that is promised can still be had as planned, and writes
// the plan anew where not: with other devices for those that need them and, where
// nothing helps, with a word to the owner of each deadline that cannot be kept. Jobs
// that have ended leave it, and all others are filled anew then.
func review(in situation) *move {
	plan := in.mirror.Promised
	if in.cfg.PromiseSizes == nil || len(plan.Value.Jobs) == 0 || in.clusterBusy() || in.writing(record.PromisedKey) || len(in.live()) == 0 {
		return nil
	}
	slot, left := plan.Value.At(in.now)
	this := reviewed{in.view.version, plan.Mod, slot}
	in.wake(in.clock.Add(left))
	if in.decisions.reviewed == this {
		return nil
	}
	o, kept := replan(in)
	if len(o.views) < len(plan.Value.Jobs) { // what those that have ended leave goes to the others
		kept = kept.renewed(o)
	}
	next := record.Promises{Origin: plan.Value.Origin.Add(time.Duration(slot) * time.Duration(plan.Value.Slot)), Slot: plan.Value.Slot, Jobs: map[cluster.JobID]record.Promise{}}
	m := &move{verb: "promise", ifs: []record.Compare{record.Unchanged(record.PromisedKey, plan.Mod)}}
	changed := false
	for _, id := range slices.Sorted(maps.Keys(plan.Value.Jobs)) {
		p := plan.Value.Jobs[id]
		if _, there := o.views[id]; !there {
			changed = true // it has ended
			continue
		}
		profile, ok := kept.profile(id)
		switch by := o.due[id]; {
		case ok && by.After(p.Deadline) && next.End(profile).After(p.Deadline):
			changed = true
			if p.Profile = p.Profile.After(slot); m.event.Kind == "" { // else its turn comes with the next
				m.event = record.Event{Kind: record.DeadlineLate, Job: id, Why: reason.Of(reason.New(reason.DeadlineMoved, "said", lateWhy(in, o, id)))}
				p = record.Promise{Deadline: by, Due: by, Profile: profile}
			}
		case ok && (p.Broken != "" || !slices.Equal(profile, p.Profile.After(slot))):
			changed = true
			if p.Broken != "" && m.event.Kind == "" {
				m.event = record.Event{Kind: record.DeadlineKept, Job: id, Why: reason.Of(reason.New(reason.DeadlineKept, "deadline", moment(p.Deadline)))}
				p.Broken, p.Profile = "", profile
			} else if p.Broken == "" {
				p.Profile = profile
			}
		case ok:
			p.Profile = profile
		case p.Broken == "" && m.event.Kind == "":
			changed = true
			p.Broken, p.Profile = brokenWhy(in, o, kept, id), nil
			m.event = record.Event{Kind: record.DeadlineBroken, Job: id, Why: reason.Of(reason.New(reason.DeadlineBroken, "said", p.Broken))}
			m.note = Note{Warn: true, Job: id, Text: "promised deadline cannot be kept: " + p.Broken}
		default:
			p.Profile = p.Profile.After(slot) // its turn comes with the next
		}
		next.Jobs[id] = p
	}
	if !changed {
		in.decisions.reviewed = this
		return nil
	}
	m.then = []record.Op{record.Put(record.PromisedKey, next)}
	return m
}

// brokenWhy says why a deadline cannot be kept, and what would still save it.
func brokenWhy(in situation, o outlook, kept keeping, id cluster.JobID) string {
	deadline := in.mirror.Promised.Value.Jobs[id].Deadline
	why, planned := o.out[id]
	if !planned {
		why = fmt.Sprintf("what is left of it is more than %s can do beside what others were promised", count(o.Devices, "usable device"))
	}
	why = fmt.Sprintf("%s: %s", moment(deadline), why)
	i := slices.IndexFunc(o.Jobs, func(j admit.Job) bool { return j.ID == id })
	if i < 0 || kept.Plan == nil {
		return why
	}
	j := o.Jobs[i]
	j.Promised, j.Kept = nil, false
	if end := kept.Offer(j, j).Deadline; end > 0 {
		why += fmt.Sprintf("; as it is it would end by %s; nodes that come back, or jobs that are stopped, would save it", moment(endingBy(about(in, in.find(id)), o.views[id], end)))
	} else {
		why += "; only more devices would save it"
	}
	return why
}
