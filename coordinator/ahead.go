package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/promise"
	"github.com/bellows-ml/bellows/record"
)

// LookAhead is what a look-ahead begins with: what a leader that has just read these
// records would ask, and which jobs came lately. It needs no leader, writes nothing, and keeps nothing of
// the mirror, which it only reads.
func LookAhead(cfg Config, m *record.Mirror, now time.Time) lookahead.Question {
	in := onlooker(cfg, m, now)
	q := lookahead.Question{Input: question(in)}
	q.Asked, q.Changed = lastKnownAsked(in)
	for i, v := range q.Input.Jobs {
		q.Input.Jobs[i] = upToNow(about(in, in.find(v.ID)), v)
	}
	q.Arrivals, q.Since = arrivals(in)
	return q
}

// DryRun is what a look-ahead begins with if this job were submitted now, and the answer
// to its deadline, nil if it has none. Where that is a promise, the job has it in the question.
func DryRun(cfg Config, m *record.Mirror, now time.Time, spec record.Submitted) (lookahead.Question, *record.Answer) {
	in := onlooker(cfg, m, now)
	q := LookAhead(cfg, m, now)
	spec.At, spec.Answer = in.now, nil
	v := asked(about(in, in.view.read(&record.JobView{ID: spec.ID, Spec: record.Versioned[record.Submitted]{Value: spec, Mod: dryMod}})))
	if spec.Deadline != nil {
		d := decideDeadline(in, spec, dryMod)
		spec.Answer = &d.Answer
		if d.Plan != nil {
			v.Promise = promise.Entry(*d.Plan, spec.ID, in.now)
			for i, j := range q.Input.Jobs {
				if p := promise.Entry(*d.Plan, j.ID, in.now); p != nil {
					q.Input.Jobs[i].Promise = p
				}
			}
		}
	}
	if len(v.Sizes) > 0 {
		q.Input.Jobs = append(q.Input.Jobs, v)
		slices.SortFunc(q.Input.Jobs, bySubmission)
	}
	q.Changed = true
	return q, spec.Answer
}

// dryMod stands for the revision of a record that is never written.
const dryMod = 1

// onlooker is the situation as one sees it who has read the records, and leads nothing.
func onlooker(cfg Config, m *record.Mirror, now time.Time) situation {
	c := New(cfg)
	c.waits.begin(now)
	c.view.mirror = m
	c.view.forgetDerived()
	c.measures.TakeAll(m, c.waits.clock)
	return c.situation()
}

// lastKnownAsked is when the last full question was asked, and whether jobs have come or
// ended since. Questions that changed nothing are in no record; they follow from when
// jobs came and ended, and from the interval.
func lastKnownAsked(in situation) (last time.Time, changed bool) {
	known := in.mirror.Decision.Value
	if known.Policy != in.cfg.Policy || known.Asked.IsZero() || in.cfg.Interval <= 0 || known.Asked.After(in.now) {
		return time.Time{}, true
	}
	var events []time.Time
	for _, j := range in.jobs() {
		events = append(events, j.Spec.Value.At)
		if s := j.state(); s.Phase.Terminal() {
			events = append(events, s.Since)
		}
	}
	slices.SortFunc(events, time.Time.Compare)
	last = known.Asked
	timely := func(until time.Time) {
		if since := until.Sub(last).Truncate(in.cfg.Interval); !in.cfg.Timeless && since > 0 {
			last = last.Add(since)
		}
	}
	for _, at := range events {
		if !in.cfg.Prompt || !at.After(last) || at.After(in.now) {
			continue
		}
		timely(at)
		next := last.Add(in.cfg.Interval / lookahead.PromptPerInterval)
		if next.Before(at) {
			next = at
		}
		if next.After(in.now) {
			return last, true
		}
		last = next
	}
	timely(in.now)
	return last, slices.ContainsFunc(events, func(at time.Time) bool { return at.After(last) && !at.After(in.now) })
}

// reported is how much slower a job may be than its ranks say, in 19 of 20 cases.
const reported = 0.9

// longestRest bounds what follows from reports.
const longestRest = 365 * 24 * time.Hour

// stalest bounds by how much work that was reported is taken further.
const stalest = 30 * time.Second

// upToNow is the job with what is left of its work now: its last report may be seconds old. Where
// nothing has been recorded of its speed yet, what it reports itself counts.
func upToNow(in situation, v allocator.JobView) allocator.JobView {
	if v.Workers == 0 || v.Work.Done() {
		return v
	}
	var last record.JobProgress
	for _, m := range in.world().Members {
		if p, ok := in.node(m.Node).Reported(in.ID, in.number(), in.world().Nonce); ok && p.At.After(last.At) {
			last = p
		}
	}
	since := min(max(0, in.now.Sub(last.At)), stalest)
	switch left := in.Spec.Value.Steps - last.Step; {
	case last.At.IsZero() || v.Work.Known && v.Booting > 0:
		return v
	case !v.Work.Known && left > 0 && last.StepsPerSecond > 0:
		takes := min(float64(left)/last.StepsPerSecond, longestRest.Seconds())
		v.Work = allocator.Left(time.Duration(takes * float64(time.Second) * speedNow(v)))
		v.Speeds, v.Careful = nil, nil
		for _, k := range v.Sizes {
			v.Speeds, v.Careful = append(v.Speeds, goodput.Default(k)), append(v.Careful, goodput.Default(k)*reported)
		}
	case !v.Work.Known:
		return v
	}
	v.Work = allocator.Left(max(time.Millisecond, v.Work.Left-time.Duration(float64(since)*speedNow(v))))
	return v
}

// speedNow is how fast the job is, relative to one device.
func speedNow(v allocator.JobView) float64 {
	if v.Staying > 0 {
		return v.Staying
	}
	return speedWith(v, v.Workers)
}

func speedWith(v allocator.JobView, k int) float64 {
	if i := slices.Index(v.Sizes, k); i >= 0 && i < len(v.Speeds) {
		return v.Speeds[i]
	}
	return goodput.Default(k)
}

// lately is how far back jobs are looked at for what is still to come: a day, so that nights count as well.
const lately = 24 * time.Hour

// leastLately is how far back they are looked at at least, whenever the first of them came.
const leastLately = time.Hour

// arrivals are the jobs that came since a time for which the records have all of them:
// jobs that have ended are kept for Timing.Retention.
func arrivals(in situation) (came []allocator.JobView, since time.Time) {
	since = in.now.Add(-min(lately, in.cfg.Timing.Retention))
	first := in.now
	for _, j := range in.jobs() {
		if at := j.Spec.Value.At; at.Before(first) {
			first = at
		}
	}
	if first = first.Add(-1); first.After(in.now.Add(-leastLately)) { // a cluster that is new: a few jobs in its first minute are no rate
		first = in.now.Add(-leastLately)
	}
	if first.After(since) {
		since = first
	}
	for _, j := range in.jobs() {
		at := j.Spec.Value.At
		if !at.After(since) || at.After(in.now) || j.state().Phase == cluster.Refused || len(j.sizes) == 0 {
			continue
		}
		if v, ok := asItCame(about(in, j)); ok {
			came = append(came, v)
		}
	}
	slices.SortFunc(came, bySubmission)
	return came, since
}

// asItCame is the job as it was when it came; false if it never had work.
func asItCame(in situation) (allocator.JobView, bool) {
	spec := in.Spec.Value
	v := allocator.JobView{
		ID: in.ID, Sizes: in.sizes, BatchSize: in.Batch(), Priority: spec.Priority, SubmittedAt: spec.At, Excluded: in.refusals(in.job).nodes,
	}
	f := known(in).ForeseeAtStart()
	v.Work, v.Alike, v.Speeds, v.StartCosts, v.Batches, v.Careful = f.Work, f.Alike, f.Speeds, f.StartCosts, f.Batches, f.Careful()
	switch phase := in.state().Phase; {
	case !phase.Terminal():
	case phase != cluster.Succeeded, !v.Work.Known: // all that it will ever have done is done
		v.Work = allocator.Left(attained(in, v))
	}
	return v, !v.Work.Done()
}

// attained is the work that the job has done by its time with workers, as time on one device.
func attained(in situation, v allocator.JobView) time.Duration {
	trained, service := in.trained(in.now)
	if trained <= 0 {
		return 0
	}
	return time.Duration(float64(trained) * speedWith(v, max(1, int(service/trained))))
}
