package promise

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// A Verdict is the answer to a deadline, and the plan with it if it is promised.
type Verdict struct {
	record.Answer
	Plan *record.Promises // with the job; nil = as it is

	due   time.Time // when the job's end is planned at the latest
	least bool      // that is only the least reserve before what is promised
}

// Decide answers whether a job that is submitted now can be promised its
// deadline beside all that was promised before. It breaks no promise; see ADR 46.
func Decide(c Cluster, j Job) Verdict {
	v := Verdict{Answer: record.Answer{Deadline: *j.Spec.Deadline, At: c.Now}}
	// 1. Some jobs can be promised nothing, whatever else runs.
	if v.Why = c.unpromisable(j); v.Why != "" {
		return v
	}
	// 2. The plan goes on as it is, with the largest reserve that the job may have.
	o, kept := c.replan()
	tried := c.reserves(j, *j.Spec.Deadline)
	due := j.Spec.Deadline.Add(-tried[0])
	asked, ok := admit.Of(j.View, c.terms(j, due))
	if !ok {
		v.Why = fmt.Sprintf("it needs at least %s, and %s usable now", units.Count(j.View.Sizes[0], "device"), areUsable(o.Devices))
		return v
	}
	if kept.Plan == nil {
		v.Why = "the deadlines that are promised cannot be planned: the record of them, or of one of those jobs, cannot be used"
		return v
	}
	// 3. The job is tried in the plan filled anew, which makes use of all that was done ahead, and in that which was promised.
	plan := kept.renewed(o.Problem)
	t := trial{j, []keeping{plan, kept}, asked}
	if c.promiseBy(&v, t, *j.Spec.Deadline) {
		v.Why = restsOn(j) + v.thin()
		return v
	}
	// 4. What could be promised instead is offered: a later end, more workers or fewer, fewer steps.
	asked.Deadline = j.Spec.Deadline.Add(-tried[len(tried)-1]).Sub(c.Now).Seconds()
	v.Why = c.refusedWhy(o, asked)
	ladder := asked
	if sizes := j.Ladder.Sizes; len(sizes) > 0 {
		if l, ok := admit.Of(j.Ladder, admit.Terms{Now: c.Now, Sizes: sizes, Work: j.View.Work.Left, Due: due}); ok {
			ladder = l
		}
	}
	offer := c.offered(j, plan.Offer(asked, ladder), asked.Work)
	v.Offer = &offer
	// 5. The earliest end in the job's grace is promised, if it has one.
	switch {
	case c.promiseLate(&v, t):
		offer.Deadline = time.Time{} // what is left would keep the deadline itself
	case j.Spec.Grace > 0:
		v.Why += fmt.Sprintf(", nor an end within its grace, by %s", moment(j.Spec.Latest()))
	}
	if offer == (record.Offered{}) {
		v.Offer = nil
	}
	return v
}

// TooMany is the answer instead of a promise whose plan would be too large to be recorded.
func (v Verdict) TooMany() Verdict {
	return Verdict{Answer: record.Answer{Deadline: v.Deadline, At: v.At, Why: "too many deadlines are promised already: ask again when some of those jobs have ended"}}
}

// TooLarge reports whether a plan is too large to be recorded.
func TooLarge(p record.Promises) bool {
	text, err := json.Marshal(p)
	return err != nil || len(text) > record.MaxPromisesBytes
}

// trial is a job with a deadline and the plans that are tried for it.
type trial struct {
	Job
	plans []keeping
	asked admit.Job
}

// promiseBy promises an end by a moment, with the largest reserve that one of the plans has room for; false if there is none.
func (c *Cluster) promiseBy(v *Verdict, t trial, by time.Time) bool {
	for i, r := range c.reserves(t.Job, by) {
		due := by.Add(-r)
		t.asked.Deadline = due.Sub(c.Now).Seconds()
		for _, p := range t.plans {
			if with, ok := p.Admit(t.asked); ok {
				v.due, v.least = due, i > 0
				c.promise(v, with)
				return true
			}
		}
	}
	return false
}

// promise puts the job's profile into the plan, with what has become of the others'.
func (c *Cluster) promise(v *Verdict, with *admit.Plan) {
	was, slot, _ := c.running()
	next := after(was, slot)
	for id, p := range was.Jobs {
		if _, goesOn := c.Jobs[id]; !goesOn {
			continue
		}
		p.Profile = p.Profile.After(slot)
		next.Jobs[id] = p
	}
	for id, profile := range with.Profiles {
		p, before := next.Jobs[id]
		if before && p.Broken != "" {
			continue // Review tells its owner that it can be kept again
		}
		if !before {
			p = record.Promise{Deadline: v.promised(), Due: v.due}
			if v.Ends = next.End(profile); v.Ends.After(v.due) {
				v.Ends = v.due
			}
		}
		p.Profile = profile
		next.Jobs[id] = p
	}
	v.Plan, v.Promised = &next, true
}

// after is a plan without jobs that begins with a slot of another.
func after(was record.Promises, slot int) record.Promises {
	return record.Promises{Origin: was.Origin.Add(time.Duration(slot) * time.Duration(was.Slot)), Slot: was.Slot, Jobs: map[cluster.JobID]record.Promise{}}
}

// promiseLate promises the earliest moment of its grace that was found for a job whose
// deadline cannot be promised; false if there is none.
func (c *Cluster) promiseLate(v *Verdict, t trial) bool {
	latest := t.Spec.Latest()
	for _, by := range []time.Time{v.Offer.Deadline, latest} {
		if !by.After(v.Deadline) || by.After(latest) {
			continue
		}
		v.By = by
		if c.promiseBy(v, t, by) {
			v.Why += "; " + restsOn(t.Job) + v.thin()
			return true
		}
	}
	v.By = time.Time{}
	return false
}

// thin says that a promise has only the least reserve; empty if it has the usual one.
func (v *Verdict) thin() string {
	if !v.least {
		return ""
	}
	return fmt.Sprintf("; only %s are left for what takes longer than it should", v.promised().Sub(v.due).Round(time.Second))
}

// promised is the moment that is promised.
func (v *Verdict) promised() time.Time {
	if v.By.IsZero() {
		return v.Deadline
	}
	return v.By
}

// unpromisable says why nothing can be promised to a job, whatever else runs; empty if something can.
func (c *Cluster) unpromisable(j Job) string {
	spec, view := j.Spec, j.View
	switch {
	case !c.Now.Before(*spec.Deadline):
		return "the deadline has passed: choose a later one"
	case c.Sizes == nil:
		return fmt.Sprintf("the coordinator's policy, %s, promises no deadlines: start it with --policy flowtime, or do without a promise", c.Policy)
	case c.Paused.Exists():
		return "the cluster is about to be shut down: " + c.Paused.Value.Why
	case c.Alive == 0:
		return "no node is alive: ask again when one is"
	case len(view.Sizes) == 0:
		return "no world size fits its batch size"
	case len(j.Barred) > 0 && c.Model != "":
		return fmt.Sprintf("deadlines are promised on devices of one model, %s, of which there are most, and %s cannot run this job: leave out what excludes it, or do without a promise",
			c.Model, j.Barred[0])
	case len(j.Barred) > 0:
		return fmt.Sprintf("a deadline is promised only to jobs that every node can run, and %s cannot run this one: leave out what excludes it, or do without a promise", j.Barred[0])
	case !view.Work.Known && spec.Steps == 0 && spec.ETA == 0:
		return "how long it takes is not known: give --steps, or --eta for its time on one device"
	case !view.Work.Known:
		return "how long its steps take is not known, as no job of its kind has run yet: measure it with `bellows profile`, or give --eta for its time on one device"
	case view.Work.Done():
		return "nothing of it is left to do"
	}
	return ""
}

// restsOn says what a promise rests on.
func restsOn(j Job) string {
	if j.Measured {
		return fmt.Sprintf("it rests on the speed that jobs of its kind have shown (%s)", j.Spec.KindName())
	}
	return fmt.Sprintf("it rests on --eta %s and on the usual gain by more devices, as nothing was measured of its kind", j.Spec.ETA)
}

// refusedWhy says what keeps a deadline from being promised.
func (c *Cluster) refusedWhy(o outlook, j admit.Job) string {
	o.Jobs = nil
	o.Devices = c.Devices
	if empty, err := admit.New(o.Problem); err == nil {
		if _, ok := empty.Admit(j); ok {
			return fmt.Sprintf("it cannot be kept beside %s promised before", units.Count(len(c.Jobs), "deadline"))
		}
	}
	return fmt.Sprintf("it cannot be kept on an idle cluster either, where the job would have %s at most", units.Count(j.Counts[len(j.Counts)-1], "device"))
}

func areUsable(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}
