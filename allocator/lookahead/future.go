package lookahead

import (
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// future is one course of things.
type future struct {
	q   Question
	cfg Config

	jobs   []*run // the question's, in their order, and then those that have come since
	live   []*run // of them, those that have not ended, by their submission
	now    time.Time
	asked  time.Time // the last full question
	looked time.Time // when the policy was last asked anything
	fresh  bool      // a job has come or ended since the last full question
	moved  bool      // the same since the last question of either kind
	spent  int       // jobs that the policy was asked about
	budget int

	coming   coming
	usable   int
	memory   []byte
	answered bool  // the policy has answered
	fault    error // why it did not, the last time
	prompt   bool
	cut      bool // it was stopped before its end
}

// run is one job in a future.
type run struct {
	view  allocator.JobView
	left  float64 // work in seconds on one device
	did   float64 // of it, since the beginning
	boot  float64 // seconds until it trains
	speed float64 // relative to one device

	never        bool // it needs more devices than it could be given
	started      bool
	start        time.Time
	startWorkers int
	shrunk       []Change
	slack        time.Duration // that those may take to save and end
	reason       string
	ended        bool
	end          time.Time
}

func newFuture(q Question, cfg Config, i, n int) *future {
	devices := allocator.NewDevices(q.Input)
	f := &future{
		q: q, cfg: cfg, now: q.Input.Now, asked: q.Asked, looked: q.Input.Now, budget: cfg.Budget / n,
		memory: q.Input.Memory, prompt: allocator.IsPrompt(cfg.Policy), fresh: q.Changed || q.Asked.IsZero(), moved: true,
		usable: devices.Usable(),
	}
	if f.asked.IsZero() || f.asked.After(f.now) {
		f.asked = f.now.Add(-q.Input.Interval)
	}
	for _, v := range q.Input.Jobs {
		r := &run{never: v.Workers == 0 && devices.UsableFor(v) < v.Sizes[0], view: v, left: drawLeft(v, level(string(v.ID), i, n)), boot: v.Booting.Seconds()}
		if v.Workers > 0 {
			r.started, r.start = true, f.now
			r.speed = r.pace(q.Input.Nodes, v.Present)
			if v.Staying > 0 {
				r.speed = v.Staying
			}
		}
		f.jobs, f.live = append(f.jobs, r), append(f.live, r)
	}
	f.coming = comeAgain(q, i, n)
	return f
}

// arrive has the next job come.
func (f *future) arrive() {
	v := f.coming.take()
	r := &run{view: v, left: drawLeft(v, level(string(v.ID), 0, MostFutures))}
	f.jobs, f.live = append(f.jobs, r), append(f.live, r)
	f.fresh, f.moved = true, true
}

// run goes on until all jobs of the question have started. Its error is the policy's, which has answered nothing.
func (f *future) run() error {
	horizon := f.q.Input.Now.Add(f.cfg.Horizon)
	for first := true; first || !f.done() && f.now.Before(horizon) && f.spent < f.budget; first = false {
		if f.cfg.Stop != nil && f.cfg.Stop() {
			f.cut = true
			return nil
		}
		f.decide()
		next := f.next()
		if next.After(horizon) {
			next = horizon
		}
		f.advance(next)
	}
	if !f.answered {
		return f.fault
	}
	return nil
}

// done reports whether nothing is left to find out.
func (f *future) done() bool {
	for _, r := range f.jobs[:len(f.q.Input.Jobs)] {
		if !r.never && (!r.started || r.view.ID == f.cfg.Follow && !r.ended) {
			return false
		}
	}
	return true
}

// fullDue is when the next full question is due.
func (f *future) fullDue() time.Time {
	due := f.asked.Add(f.q.Input.Interval)
	if f.prompt && f.fresh {
		due = f.asked.Add(f.q.Input.Interval / PromptPerInterval)
	}
	for _, r := range f.live {
		if p := f.promise(r); p != nil {
			if at := f.now.Add(p.First); at.Before(due) {
				due = at
			}
			break
		}
	}
	if soonest := f.looked.Add(f.pause()); due.Before(soonest) {
		due = soonest
	}
	return due
}

// pause is how long the next question lies after the last at least: a share of the time
// since the beginning, as what lies far ahead need not be known to the second. The share is so
// large that the budget lasts to the horizon: steps of 1/c of what has passed come there
// in c·ln(horizon ÷ passed) questions, about.
func (f *future) pause() time.Duration {
	passed := f.looked.Sub(f.q.Input.Now)
	if passed <= 0 {
		return 0
	}
	questions := float64(f.budget-f.spent) / float64(max(1, len(f.live)))
	c := questions / (reserved * max(1, math.Log(float64(f.cfg.Horizon)/float64(passed))))
	return time.Duration(float64(passed) / min(finest, max(coarsest, c)))
}

const (
	// The share is between 1/finest and 1/coarsest.
	finest, coarsest = 50.0, 0.5
	// reserved is how many questions are kept for each that this takes: more jobs may come than end.
	reserved = 2
)

// betweenDue is when idle devices are offered to jobs that wait; false if there are none of either.
func (f *future) betweenDue() (time.Time, bool) {
	if !f.moved {
		return time.Time{}, false
	}
	held, waits := 0, false
	for _, r := range f.live {
		held += r.view.Workers
		waits = waits || r.view.Workers == 0
	}
	if !waits || held >= f.usable {
		return time.Time{}, false
	}
	if at := f.looked.Add(f.pause()); at.After(f.now) {
		return at, true
	}
	return f.now, true
}

// next is the moment at which something happens next.
func (f *future) next() time.Time {
	next := f.fullDue()
	if at, ok := f.betweenDue(); ok && at.Before(next) {
		next = at
	}
	if at, ok := f.coming.next(f.q.Input.Now.Add(f.cfg.Horizon)); ok && at.Before(next) {
		next = at
	}
	for _, r := range f.live {
		if r.view.Workers == 0 {
			continue
		}
		// Rounded up, so that at this moment it has ended.
		at := r.boot + r.left/r.speed
		if at < next.Sub(f.now).Seconds() {
			next = f.now.Add(seconds(at) + 1)
		}
	}
	if !next.After(f.now) {
		next = f.now.Add(1)
	}
	return next
}

// advance lets time pass: jobs train, end and come.
func (f *future) advance(to time.Time) {
	dt := to.Sub(f.now)
	s := dt.Seconds()
	f.now = to
	ended := false
	for _, r := range f.live {
		k := r.view.Workers
		if k == 0 {
			continue
		}
		r.view.Trained += dt
		r.view.Service += dt * time.Duration(k)
		trains := max(0, s-r.boot)
		r.boot = max(0, r.boot-s)
		r.left -= trains * r.speed
		r.did += trains * r.speed
		if r.left <= endSlack*r.speed && r.boot == 0 {
			r.left, r.ended, r.end, ended = 0, true, to, true
		}
	}
	if ended {
		f.live = slices.DeleteFunc(f.live, func(r *run) bool { return r.ended })
		f.fresh, f.moved = true, true
	}
	for {
		at, ok := f.coming.next(f.q.Input.Now.Add(f.cfg.Horizon))
		if !ok || at.After(to) {
			return
		}
		f.arrive()
	}
}

// endSlack is how many seconds before its end a job counts as ended.
const endSlack = 1e-6

// decide asks the policy, if a question is due.
func (f *future) decide() {
	if !f.now.Before(f.fullDue()) {
		f.asked, f.fresh = f.now, false
		f.ask(false)
	} else if at, ok := f.betweenDue(); ok && !f.now.Before(at) {
		f.ask(true)
	}
}

// ask asks the policy and carries its answer out.
func (f *future) ask(between bool) {
	in := f.q.Input
	in.Now, in.Between, in.Memory = f.now, between, f.memory
	in.Jobs = make([]allocator.JobView, len(f.live))
	for i, r := range f.live {
		in.Jobs[i] = f.seen(r)
	}
	f.looked, f.moved = f.now, false
	f.spent += len(in.Jobs)
	out, err := allocator.Run(f.cfg.Policy, in)
	if err != nil {
		f.fault = err // as in a cluster: what is in force stays
		return
	}
	f.answered, f.memory = true, out.Memory
	f.carryOut(in, out.Decisions)
}

// seen is what the policy is told of a job: of unknown work only what would be known.
func (f *future) seen(r *run) allocator.JobView {
	v := r.view
	v.Booting = seconds(r.boot)
	v.Promise = f.promise(r)
	if v.Work.Known {
		v.Work = allocator.Left(seconds(r.left))
		return v
	}
	done := seconds(r.did)
	v.Alike = nil
	for _, a := range r.view.Alike {
		if a > done {
			v.Alike = append(v.Alike, a-done)
		}
	}
	return v
}

// promise is the job's as it stands now.
func (f *future) promise(r *run) *allocator.Promise {
	p := r.view.Promise
	if p == nil || p.Slot <= 0 {
		return p
	}
	gone, q := f.now.Sub(f.q.Input.Now), *p
	if gone < p.First {
		q.First -= gone
		return &q
	}
	slots := 1 + int((gone-p.First)/p.Slot)
	q.Profile = p.Profile.After(slots)
	q.First = p.First + time.Duration(slots)*p.Slot - gone
	return &q
}

// carryOut gives jobs the devices that were decided, as the leader does.
func (f *future) carryOut(in allocator.Input, decisions []allocator.Decision) {
	var present []cluster.Allocation
	var want []place.Count
	for i, d := range decisions {
		r := f.live[i]
		if r.view.Workers > 0 {
			present = append(present, r.view.Present)
		}
		r.reason = d.Reason
		if d.Workers == 0 && r.view.Workers == 0 {
			continue
		}
		want = append(want, place.Count{Job: d.Job, Workers: d.Workers, BatchSize: d.BatchSize, Model: d.Model, Excluded: d.Closed(in.Nodes, r.view.Excluded), Keep: in.Between && r.view.Workers > 0 || r.view.Pinned})
	}
	placed := map[cluster.JobID]cluster.Allocation{}
	for _, a := range place.Place(in.Nodes, present, want).Allocations {
		placed[a.Job] = a
	}
	var shrunk []Change
	slack := handover
	for _, r := range f.live {
		if k := placed[r.view.ID].Workers(); k < r.view.Workers {
			shrunk = append(shrunk, Change{r.view.ID, r.view.Workers, k})
			slack = max(slack, r.view.StartCost(r.view.Workers))
		}
	}
	for _, r := range f.live {
		waited := !r.started
		r.become(f.now, in.Nodes, placed[r.view.ID])
		if waited && r.started {
			r.shrunk, r.slack = shrunk, slack
		}
	}
}

// become gives a job its devices.
func (r *run) become(now time.Time, nodes []cluster.Node, a cluster.Allocation) {
	k := a.Workers()
	if k == r.view.Workers && (k == 0 || samePlaces(a, r.view.Present)) {
		return
	}
	if k > 0 {
		r.boot, r.speed = r.view.StartCost(k).Seconds(), r.pace(nodes, a)
		if !r.started {
			r.started, r.start, r.startWorkers = true, now, k
		}
	}
	r.view.Workers, r.view.Present, r.view.Staying = k, a, 0
}

func samePlaces(a, b cluster.Allocation) bool {
	return a.BatchSize == b.BatchSize && slices.EqualFunc(a.Placements, b.Placements, func(x, y cluster.Placement) bool {
		return x.Node == y.Node && slices.Equal(x.Devices, y.Devices)
	})
}

// startOf is when a job starts, in seconds from the beginning; infinite if it does not.
func (f *future) startOf(i int) float64 {
	if r := f.jobs[i]; r.started {
		return r.start.Sub(f.q.Input.Now).Seconds()
	}
	return math.Inf(1)
}

func (f *future) endOf(i int) float64 {
	if r := f.jobs[i]; r.ended {
		return r.end.Sub(f.q.Input.Now).Seconds()
	}
	return math.Inf(1)
}
