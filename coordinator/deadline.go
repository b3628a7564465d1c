package coordinator

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// verdict is the answer to a deadline, and the plan with it if it is promised.
type verdict struct {
	record.Answer
	due   time.Time        // when the job's end is planned at the latest
	least bool             // that is only the least reserve before what is promised
	plan  *record.Promises // nil = as it is
}

// decideDeadline answers whether a job that is submitted now can be promised its
// deadline beside all that was promised before. It breaks no promise; see ADR 46.
func decideDeadline(in situation, spec record.Submitted, mod int64) verdict {
	v := verdict{Answer: record.Answer{Deadline: *spec.Deadline, At: in.now}}
	j := in.view.read(&record.JobView{ID: spec.ID, Spec: record.Versioned[record.Submitted]{Value: spec, Mod: mod}})
	of := about(in, j)
	defer delete(in.measures.seen, spec.ID) // it is learnt anew of the job's own record
	view := asked(of).On(promiseModel(in))
	if v.Why = unpromisable(of, view); v.Why != "" {
		return v
	}
	o, kept := replan(in)
	tried := reserves(of, view, *spec.Deadline)
	due := spec.Deadline.Add(-tried[0])
	job, ok := admit.Of(view, o.terms(of, view, due))
	if !ok {
		v.Why = fmt.Sprintf("it needs at least %s, and %s usable now", count(view.Sizes[0], "device"), areUsable(o.Devices))
		return v
	}
	if kept.Plan == nil {
		v.Why = "the deadlines that are promised cannot be planned: the record of them, or of one of those jobs, cannot be used"
		return v
	}
	plan := kept.renewed(o)
	t := trial{o, view, []keeping{plan, kept}, job} // filled anew, which makes use of all that was done ahead, or as it was promised
	if v.promiseBy(of, t, *spec.Deadline) {
		v.Why = restsOn(of) + v.thin(in)
		return v
	}
	job.Deadline = spec.Deadline.Add(-tried[len(tried)-1]).Sub(in.now).Seconds()
	v.Why = refusedWhy(in, o, job)
	ladder := job
	if sizes := ladderOf(of, o); len(sizes) > 0 {
		other := withSizes(j, sizes)
		if l, ok := admit.Of(asked(about(in, other)).On(promiseModel(in)), admit.Terms{Now: in.now, Sizes: sizes, Work: view.Work.Left, Due: due}); ok {
			ladder = l
		}
	}
	offer := offered(of, view, plan.Offer(job, ladder), job.Work)
	v.Offer = &offer
	switch {
	case v.promiseLate(of, t):
		offer.Deadline = time.Time{} // what is left would keep the deadline itself
	case spec.Grace > 0:
		v.Why += fmt.Sprintf(", nor an end within its grace, by %s", moment(spec.Latest()))
	}
	if offer == (record.Offered{}) {
		v.Offer = nil
	}
	return v
}

// promise puts the job's profile into the plan, with what has become of the others'.
func (v *verdict) promise(in situation, with *admit.Plan, o outlook) {
	was, slot, due := o.plan, o.slot, v.due
	next := record.Promises{Origin: was.Origin.Add(time.Duration(slot) * time.Duration(was.Slot)), Slot: was.Slot, Jobs: map[cluster.JobID]record.Promise{}}
	for id, p := range was.Jobs {
		if ended(in.find(id)) {
			continue
		}
		p.Profile = p.Profile.After(slot)
		next.Jobs[id] = p
	}
	for id, profile := range with.Profiles {
		p, before := next.Jobs[id]
		if before && p.Broken != "" {
			continue // review tells its owner that it can be kept again
		}
		if !before {
			p = record.Promise{Deadline: v.promised(), Due: due}
			if v.Ends = next.End(profile); v.Ends.After(due) {
				v.Ends = due
			}
		}
		p.Profile = profile
		next.Jobs[id] = p
	}
	v.plan, v.Promised = &next, true
}

// trial is a job with a deadline and the plans that are tried for it.
type trial struct {
	outlook
	view  allocator.JobView
	plans []keeping
	job   admit.Job
}

// promiseBy promises an end by a moment, with the largest reserve that one of the plans has room for; false if there is none.
func (v *verdict) promiseBy(in situation, t trial, by time.Time) bool {
	for i, r := range reserves(in, t.view, by) {
		due := by.Add(-r)
		t.job.Deadline = due.Sub(in.now).Seconds()
		for _, p := range t.plans {
			if with, ok := p.Admit(t.job); ok {
				v.due, v.least = due, i > 0
				v.promise(in, with, t.outlook)
				return true
			}
		}
	}
	return false
}

// thin says that a promise has only the least reserve; empty if it has the usual one.
func (v *verdict) thin(in situation) string {
	if !v.least {
		return ""
	}
	return fmt.Sprintf("; only %s are left for what takes longer than it should", v.promised().Sub(v.due).Round(time.Second))
}

// promiseLate promises the earliest moment of its grace that was found for a job whose
// deadline cannot be promised; false if there is none.
func (v *verdict) promiseLate(in situation, t trial) bool {
	latest := in.Spec.Value.Latest()
	for _, by := range []time.Time{v.Offer.Deadline, latest} {
		if !by.After(v.Deadline) || by.After(latest) {
			continue
		}
		v.By = by
		if v.promiseBy(in, t, by) {
			v.Why += "; " + restsOn(in) + v.thin(in)
			return true
		}
	}
	v.By = time.Time{}
	return false
}

// promised is the moment that is promised.
func (v *verdict) promised() time.Time {
	if v.By.IsZero() {
		return v.Deadline
	}
	return v.By
}

// unpromisable says why nothing can be promised to a job, whatever else runs; empty if something can.
func unpromisable(in situation, view allocator.JobView) string {
	spec := in.Spec.Value
	switch {
	case !in.now.Before(*spec.Deadline):
		return "the deadline has passed: choose a later one"
	case in.cfg.PromiseSizes == nil:
		return fmt.Sprintf("the coordinator's policy, %s, promises no deadlines: start it with --policy flowtime, or do without a promise", in.cfg.Policy)
	case in.paused().Exists():
		return "the cluster is about to be shut down: " + in.paused().Value.Why
	case len(in.live()) == 0:
		return "no node is alive: ask again when one is"
	case len(view.Sizes) == 0:
		return "no world size fits its batch size"
	case len(promiseExcluded(in, view)) > 0 && promiseModel(in) != "":
		return fmt.Sprintf("deadlines are promised on devices of one model, %s, of which there are most, and %s cannot run this job: leave out what excludes it, or do without a promise",
			promiseModel(in), promiseExcluded(in, view)[0])
	case len(promiseExcluded(in, view)) > 0:
		return fmt.Sprintf("a deadline is promised only to jobs that every node can run, and %s cannot run this one: leave out what excludes it, or do without a promise", view.Excluded[0])
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
func restsOn(in situation) string {
	spec := in.Spec.Value
	if f := foresee(in); f.Curve != nil {
		return fmt.Sprintf("it rests on the speed that jobs of its kind have shown (%s)", spec.KindName())
	}
	return fmt.Sprintf("it rests on --eta %s and on the usual gain by more devices, as nothing was measured of its kind", spec.ETA)
}

// refusedWhy says what keeps a deadline from being promised.
func refusedWhy(in situation, o outlook, j admit.Job) string {
	o.Jobs = nil
	o.Devices = promiseDevices(in)
	if empty, err := admit.New(o.Problem); err == nil {
		if _, ok := empty.Admit(j); ok {
			return fmt.Sprintf("it cannot be kept beside %s promised before", count(len(o.views), "deadline"))
		}
	}
	return fmt.Sprintf("it cannot be kept on an idle cluster either, where the job would have %s at most", count(j.Counts[len(j.Counts)-1], "device"))
}

func areUsable(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// ladderOf are the numbers of workers that the job's script could have on this cluster.
func ladderOf(in situation, o outlook) []int {
	spec := in.Spec.Value.Spec
	if len(spec.Sizes) > 0 {
		return spec.Sizes
	}
	spec.MinWorkers, spec.MaxWorkers = 1, min(max(1, o.Devices), cluster.MaxWorldSize)
	return spec.WorldSizes()
}

// tooManyPromises reports whether a plan is too large to be recorded.
func tooManyPromises(p record.Promises) bool {
	text, err := json.Marshal(p)
	return err != nil || len(text) > record.MaxPromisesBytes
}

// deadlineWords says in an event what became of a deadline; nothing where there is none.
func deadlineWords(a *record.Answer) reason.Reason {
	switch {
	case a == nil:
		return nil
	case a.Late():
		return reason.Of(reason.New(reason.DeadlineInGrace, "deadline", moment(a.Deadline), "by", moment(a.By), "said", a.Why))
	case a.Promised:
		return reason.Of(reason.New(reason.DeadlinePromised, "deadline", moment(a.Deadline), "said", a.Why))
	}
	return reason.Of(deadlineRefused(a))
}

// deadlineRefused says why a deadline is not promised, and what would be.
func deadlineRefused(a *record.Answer) reason.Clause {
	return reason.New(reason.DeadlineRefused, "deadline", moment(a.Deadline), "said", a.Why+a.Offer.Words(nil))
}
