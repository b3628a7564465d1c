package lookahead

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// Question is what is known when a look-ahead begins.
type Question struct {
	// Input is what the policy would be asked now.
	Input allocator.Input
	// Asked is when the last full question was asked, zero = not known; Changed that a job
	// has come or ended since.
	Asked   time.Time
	Changed bool
	// Arrivals are the jobs that came since Since, by their SubmittedAt, with all of their
	// work ahead of them.
	Arrivals []allocator.JobView
	Since    time.Time
}

// Config is how to look ahead.
type Config struct {
	Policy allocator.Policy
	// Futures is how many futures are run; 0 = as many as Budget allows, MostFutures at most.
	Futures int
	// Budget is how many jobs the policy is asked about, over all questions; 0 = DefaultBudget.
	Budget int
	// Horizon is how far to look; 0 = DefaultHorizon.
	Horizon time.Duration
	// Follow is a job that is looked at until it ends; empty = none.
	Follow cluster.JobID
	// Stop is asked before each question whether to go no further; nil = never. The futures that
	// have not come to their end by then are left out, if LeastFutures have.
	Stop func() bool
}

const (
	// MostFutures is of how many futures the earliest and the latest start hold nine in ten:
	// one more start, as likely to come at any place among them, lies outside in 2 of 20 cases.
	MostFutures = 19
	// LeastFutures is with how few an interval is still told, widened accordingly.
	LeastFutures = 5
	// DefaultBudget takes about half a second of processor time with policy flowtime.
	DefaultBudget = 40_000
	// DefaultHorizon is longer than people plan for.
	DefaultHorizon = 14 * 24 * time.Hour
	// PromptPerInterval is how many full questions a prompt policy is asked in an interval at
	// most, however many jobs and nodes come and go in it: those that come together are decided together.
	PromptPerInterval = 3
)

// Start is when a waiting job starts.
type Start struct {
	Job cluster.JobID
	// At is the median of all futures, and Low and High hold nine in ten. At is zero where the job
	// does not start by Until in half of them, High where it does not in one of them.
	At, Low, High time.Time
	// Until is how far was looked.
	Until time.Time
	// Never: its smallest size is more than all devices that it could be given, so that it
	// waits for others. Reason says so, and the rest is empty.
	Never bool
	// Workers is how many it starts with in the future that At is of; Reason why it waits there
	// until then, by the policy.
	Workers int
	Reason  string
	// Shrunk are the jobs that lose workers by the decision that starts it.
	Shrunk []Change
	// End is when the job ends that is followed, as At, EndLow and EndHigh as Low and High.
	End, EndLow, EndHigh time.Time
}

// Change is a job that has other numbers of workers before and after a decision.
type Change struct {
	Job      cluster.JobID
	From, To int // 0 = it waits
}

// Look predicts the start of each job of the question that waits, and of the one that is followed, in their order. The
// error is the policy's: its answer broke a rule.
func Look(q Question, cfg Config) ([]Start, error) {
	waiting := func(j allocator.JobView) bool { return j.Workers == 0 || j.ID == cfg.Follow }
	if !slices.ContainsFunc(q.Input.Jobs, waiting) {
		return nil, nil
	}
	cfg.Budget, cfg.Horizon = cmp.Or(cfg.Budget, DefaultBudget), cmp.Or(cfg.Horizon, DefaultHorizon)
	n := cmp.Or(cfg.Futures, futuresFor(cfg.Budget, len(q.Input.Jobs)))
	var all []*future
	for i := range n {
		f := newFuture(q, cfg, i, n)
		if err := f.run(); err != nil {
			return nil, fmt.Errorf("look ahead: %w", err)
		}
		if f.cut && len(all) >= LeastFutures {
			break // it says nothing, and neither do those after it: the range is that of so many
		}
		all = append(all, f)
	}
	var out []Start
	for i, j := range q.Input.Jobs {
		if waiting(j) {
			out = append(out, startOf(all, i))
		}
	}
	return out, nil
}

// enoughQuestions is how many a future should be able to ask.
const enoughQuestions = 25

// futuresFor is how many futures to run with a budget: few where each question costs much.
func futuresFor(budget, jobs int) int {
	for _, n := range []int{MostFutures, 9} {
		if budget/(n*max(1, jobs)) >= enoughQuestions {
			return n
		}
	}
	return LeastFutures
}

// startOf sums up what became of one job in all futures.
func startOf(all []*future, i int) Start {
	q := all[0].q.Input
	s := Start{Job: q.Jobs[i].ID, Until: q.Now.Add(all[0].cfg.Horizon)}
	if all[0].jobs[i].never {
		return Start{Job: s.Job, Never: true, Until: q.Now, Reason: all[0].jobs[i].reason}
	}
	for _, f := range all {
		if !f.jobs[i].started {
			s.Until = earlier(s.Until, f.now)
		}
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *future) int { return cmp.Compare(a.startOf(i), b.startOf(i)) })
	middle := order[len(order)/2].jobs[i]
	s.Reason, s.Workers, s.Shrunk = order[len(order)-1].jobs[i].reason, middle.startWorkers, middle.shrunk
	if middle.started && s.Reason == "" {
		s.Reason = middle.reason
	}
	var starts, ends []float64
	for _, f := range order {
		starts = append(starts, f.startOf(i))
		ends = append(ends, f.endOf(i))
	}
	slices.Sort(ends)
	s.At, s.Low, s.High = moments(q.Now, starts)
	if !s.High.IsZero() {
		slack := handover
		for _, f := range all {
			slack = max(slack, f.jobs[i].slack)
		}
		s.High = s.High.Add(slack)
	}
	if s.Until.Before(s.At) { // some futures were given up sooner than others
		s.Until = s.At
	}
	if all[0].cfg.Follow == s.Job {
		s.End, s.EndLow, s.EndHigh = moments(q.Now, ends)
	}
	return s
}

// handover is how long after a decision a job may start whose devices are free: records
// have to be written and nodes to act.
const handover = 2 * time.Second

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// nineInTen is the share of futures that an interval holds.
const nineInTen = 0.9

// moments are the median and the interval of nine in ten of sorted times from now, in
// seconds, rounded to seconds such that the interval grows; infinite ones are zero moments. The range of n draws holds (n−1)/(n+1) of all
// on average: with fewer than MostFutures it is widened.
func moments(now time.Time, sorted []float64) (at, low, high time.Time) {
	n := len(sorted)
	a, b, c := sorted[0], sorted[n/2], sorted[n-1]
	if wide := nineInTen*float64(n+1)/float64(max(1, n-1)) - 1; wide > 0 && n > 1 {
		a -= (b - a) * wide
		c += (c - b) * wide
	}
	moment := func(s float64, to func(float64) float64) time.Time {
		if math.IsInf(s, 0) || math.IsNaN(s) {
			return time.Time{}
		}
		return now.Add(seconds(max(0, to(s))))
	}
	return moment(b, math.Round), moment(a, math.Floor), moment(c, math.Ceil)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
