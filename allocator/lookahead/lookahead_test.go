package lookahead_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// asking is a question of a cluster of one node with so many devices, asked last a minute ago.
func asking(devices int, jobs ...allocator.JobView) lookahead.Question {
	n := cluster.Node{ID: "n1"}
	for i := range devices {
		n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprint("d", i)), Health: cluster.Healthy})
	}
	return lookahead.Question{Input: allocator.Input{Now: now, Nodes: []cluster.Node{n}, Jobs: jobs, Interval: time.Minute}, Asked: now, Since: now}
}

// waits is a job of one worker that waits, with so much work.
func waits(id string, work time.Duration) allocator.JobView {
	return allocator.JobView{
		ID: cluster.JobID(id), Sizes: []int{1}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: now.Add(-time.Minute),
		Work: allocator.Left(work), StartCosts: []time.Duration{0},
	}
}

// runs is a job that has the device of that number.
func runs(id string, device int, work time.Duration) allocator.JobView {
	j := waits(id, work)
	j.SubmittedAt = now.Add(-time.Hour)
	j.Workers = 1
	j.Present = cluster.Allocation{Job: j.ID, BatchSize: 64, Placements: []cluster.Placement{{Node: "n1", Devices: []cluster.DeviceID{cluster.DeviceID(fmt.Sprint("d", device))}}}}
	return j
}

func look(t *testing.T, q lookahead.Question, cfg lookahead.Config) []lookahead.Start {
	t.Helper()
	if cfg.Policy == nil {
		p, err := policy.ByName("fifo")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Policy = p
	}
	starts, err := lookahead.Look(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return starts
}

// near reports whether a moment is so long after now, give or take a second.
func near(t time.Time, after time.Duration) bool {
	d := t.Sub(now) - after
	return -time.Second <= d && d <= time.Second
}

// What is known exactly, and with no jobs to come, is predicted exactly: the jobs that wait
// start one after the other, when those before them end.
func TestAQueueStartsAsJobsEnd(t *testing.T) {
	starts := look(t, asking(2, runs("a", 0, 10*time.Minute), runs("b", 1, 30*time.Minute), waits("c", time.Hour), waits("d", time.Hour), waits("e", time.Hour)), lookahead.Config{})
	if len(starts) != 3 {
		t.Fatalf("%+v", starts)
	}
	for i, want := range []time.Duration{10 * time.Minute, 30 * time.Minute, 70 * time.Minute} {
		s := starts[i]
		// what lies far ahead is looked at more coarsely
		if off := s.At.Sub(now) - want; off < -time.Second || off > want/10 || s.Low.After(s.At) || s.High.Before(s.At) || s.Workers != 1 || s.Never {
			t.Errorf("%s: %v to %v, median %v, %d workers; want %v", s.Job, s.Low.Sub(now), s.High.Sub(now), s.At.Sub(now), s.Workers, want)
		}
	}
}

// A speed that is known to a tenth makes the end of a job, and the start of the next, uncertain by as much.
func TestUncertainSpeedsWidenTheInterval(t *testing.T) {
	a := runs("a", 0, 100*time.Minute)
	a.Speeds, a.Careful = []float64{1}, []float64{0.9}
	s := look(t, asking(1, a, waits("b", time.Hour)), lookahead.Config{})[0]
	if low, high := s.Low.Sub(now), s.High.Sub(now); low < 80*time.Minute || low > 93*time.Minute || high < 107*time.Minute || high > 130*time.Minute {
		t.Errorf("%v to %v, median %v", low, high, s.At.Sub(now))
	}
}

// The range of few draws holds less of what may come than that of many, and is widened.
func TestFewFuturesWidenTheInterval(t *testing.T) {
	a := runs("a", 0, 0)
	a.Work, a.Alike = allocator.Work{}, []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute, 50 * time.Minute}
	// Five futures: each length once, and (0.9·6/4 − 1) = 0.35 of 20 minutes more on either side.
	s := look(t, asking(1, a, waits("b", time.Hour)), lookahead.Config{Futures: lookahead.LeastFutures})[0]
	if low, high := s.Low.Sub(now), s.High.Sub(now); low > 4*time.Minute || high < 56*time.Minute || high > 65*time.Minute || s.At.Sub(now) < 28*time.Minute {
		t.Errorf("%v to %v, median %v", low, high, s.At.Sub(now))
	}
}

// The jobs that came lately come again, and where the policy prefers them a job waits longer.
func TestJobsThatAreToCome(t *testing.T) {
	p, err := policy.ByName("srtf")
	if err != nil {
		t.Fatal(err)
	}
	q := asking(1, runs("a", 0, 10*time.Minute), waits("b", 5*time.Hour))
	alone := look(t, q, lookahead.Config{Policy: p})[0]
	q.Since = now.Add(-4 * time.Hour)
	for i := range 12 {
		j := waits(fmt.Sprint("short", i), 15*time.Minute)
		j.SubmittedAt = q.Since.Add(time.Duration(i)*20*time.Minute + time.Minute)
		q.Arrivals = append(q.Arrivals, j)
	}
	s := look(t, q, lookahead.Config{Policy: p})[0]
	if !near(alone.At, 10*time.Minute) || !near(alone.High, 10*time.Minute+2*time.Second) {
		t.Errorf("alone: %+v", alone)
	}
	if s.Low.Before(alone.Low) || !s.High.IsZero() && s.High.Before(alone.High.Add(10*time.Minute)) {
		t.Errorf("with others: %v to %v, median %v", s.Low.Sub(now), s.High.Sub(now), s.At.Sub(now))
	}
	again := look(t, q, lookahead.Config{Policy: p})[0]
	if !again.At.Equal(s.At) || !again.Low.Equal(s.Low) || !again.High.Equal(s.High) {
		t.Errorf("the same question has another answer: %+v, %+v", s, again)
	}
}

// A job that needs more devices than there are never starts, and holds up no look-ahead.
func TestAJobThatIsTooLargeNeverStarts(t *testing.T) {
	big := waits("big", time.Hour)
	big.Sizes = []int{8}
	asked := 0
	p := counted{&asked}
	starts := look(t, asking(2, big), lookahead.Config{Policy: p})
	if s := starts[0]; !s.Never || !strings.Contains(s.Reason, "too large") || asked > lookahead.MostFutures {
		t.Errorf("%+v after %d questions", s, asked)
	}
}

// counted leaves all jobs as they are, and counts the questions.
type counted struct{ asked *int }

func (counted) Name() string { return "counted" }

func (c counted) Allocate(in allocator.Input) allocator.Output {
	*c.asked++
	var out allocator.Output
	for _, j := range in.Jobs {
		out.Decisions = append(out.Decisions, allocator.Decision{Job: j.ID, Workers: j.Workers, Reason: "too large"})
	}
	return out
}

// A job that the policy starts by taking workers from others says from which.
func TestWhoMakesRoom(t *testing.T) {
	p, err := policy.ByName("srtf")
	if err != nil {
		t.Fatal(err)
	}
	long := runs("long", 0, 10*time.Hour)
	long.StartCosts = []time.Duration{time.Minute}
	q := asking(1, long, waits("short", 10*time.Minute))
	s := look(t, q, lookahead.Config{Policy: p, Follow: "short"})[0]
	if len(s.Shrunk) != 1 || s.Shrunk[0] != (lookahead.Change{Job: "long", From: 1, To: 0}) {
		t.Errorf("%+v", s)
	}
	// it is decided at the end of the interval; the other has to save first, which may take as long as a start of it.
	if !near(s.At, time.Minute) || !near(s.High, 2*time.Minute) || !near(s.End, 11*time.Minute) {
		t.Errorf("from %v to %v, ends %v", s.At.Sub(now), s.High.Sub(now), s.End.Sub(now))
	}
}

// Where the budget does not last, what is not known is later than what was looked at.
func TestABudgetThatDoesNotLast(t *testing.T) {
	asked := 0
	q := asking(1, runs("a", 0, 1000*time.Hour), waits("b", time.Hour))
	s := look(t, q, lookahead.Config{Policy: counted{&asked}, Budget: 20 * 2 * lookahead.LeastFutures})[0]
	if !s.At.IsZero() || !s.High.IsZero() || !s.Until.After(now) || asked > 21*lookahead.LeastFutures {
		t.Errorf("%+v after %d questions", s, asked)
	}
	// With many jobs, of which each question counts all, it lasts for two of each future.
	var many []allocator.JobView
	for i := range 29 {
		many = append(many, waits(fmt.Sprintf("w%02d", i), time.Hour))
	}
	asked = 0
	q = asking(1, append(many, runs("a", 0, 1000*time.Hour))...)
	s = look(t, q, lookahead.Config{Policy: counted{&asked}, Budget: 60 * lookahead.LeastFutures})[0]
	if !s.At.IsZero() || asked > 3*lookahead.LeastFutures {
		t.Errorf("many: %+v after %d questions", s, asked)
	}
	stops := 0
	s = look(t, q, lookahead.Config{Policy: counted{&asked}, Stop: func() bool { stops++; return stops > 1 }})[0]
	if !s.At.IsZero() || s.Until.After(now.Add(time.Hour)) {
		t.Errorf("stopped: %+v", s)
	}
}

// Where time is up with some of the futures, these give the answer, with a wider range.
func TestFuturesThatHaveNotBegunSayNothing(t *testing.T) {
	q := asking(1, runs("a", 0, 10*time.Minute), waits("b", time.Hour))
	all, asked := 0, 0
	whole := look(t, q, lookahead.Config{Stop: func() bool { all++; return false }})[0]
	s := look(t, q, lookahead.Config{Stop: func() bool { asked++; return asked > 2*all/5 }})[0]
	if !near(whole.At, 10*time.Minute) || !near(s.At, 10*time.Minute) || s.High.IsZero() || s.High.Before(whole.High) {
		t.Errorf("of all: %+v; of two fifths: %+v", whole, s)
	}
}

// bad gives a job a size that it may not have.
type bad struct{ counted }

func (bad) Allocate(in allocator.Input) allocator.Output {
	return allocator.Output{Decisions: []allocator.Decision{{Job: in.Jobs[0].ID, Workers: 3}}}
}

func TestAPolicyThatBreaksRules(t *testing.T) {
	starts, err := lookahead.Look(asking(4, waits("a", time.Hour)), lookahead.Config{Policy: bad{}})
	if err == nil || starts != nil || !strings.Contains(err.Error(), "look ahead: check the answer of policy") || errors.Unwrap(err) == nil {
		t.Errorf("%v, %v", starts, err)
	}
}

// Of work that is not known, each length of the jobs like it is as likely; what was done of it counts.
func TestUnknownWork(t *testing.T) {
	a := runs("a", 0, 0)
	a.Work, a.Alike = allocator.Work{}, []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 40 * time.Minute, 50 * time.Minute}
	s := look(t, asking(1, a, waits("b", time.Hour)), lookahead.Config{})[0]
	if !near(s.Low, 10*time.Minute) || s.At.Sub(now) < 28*time.Minute || s.At.Sub(now) > 33*time.Minute || s.High.Sub(now) < 50*time.Minute {
		t.Errorf("%v to %v, median %v", s.Low.Sub(now), s.High.Sub(now), s.At.Sub(now))
	}
	a.Alike = nil // as much lies ahead as behind, or an hour, in the median
	s = look(t, asking(1, a, waits("b", time.Hour)), lookahead.Config{})[0]
	if at := s.At.Sub(now); at < 50*time.Minute || at > 75*time.Minute || s.High.Sub(now) < 5*time.Hour {
		t.Errorf("unknown: %v to %v, median %v", s.Low.Sub(now), s.High.Sub(now), at)
	}
}

// A look-ahead for 500 jobs, 100 of which wait.
func BenchmarkLook(b *testing.B) {
	p, err := policy.ByName(policy.Default)
	if err != nil {
		b.Fatal(err)
	}
	var jobs []allocator.JobView
	for i := range 400 {
		jobs = append(jobs, runs(fmt.Sprintf("r%03d", i), i, time.Duration(1+i%50)*20*time.Minute))
	}
	for i := range 100 {
		jobs = append(jobs, waits(fmt.Sprintf("w%03d", i), time.Duration(1+i)*17*time.Minute))
	}
	q := asking(400, jobs...)
	q.Since = now.Add(-24 * time.Hour)
	for i := range 400 {
		j := waits(fmt.Sprintf("p%03d", i), time.Duration(1+i%60)*11*time.Minute)
		j.SubmittedAt = q.Since.Add(time.Duration(i+1) * 3 * time.Minute)
		q.Arrivals = append(q.Arrivals, j)
	}
	for b.Loop() {
		starts, err := lookahead.Look(q, lookahead.Config{Policy: p})
		if err != nil || len(starts) != 100 {
			b.Fatal(err, len(starts))
		}
	}
}
