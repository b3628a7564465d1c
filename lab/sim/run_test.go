package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/trace"
)

const s = time.Second

func byName(t *testing.T, name string) allocator.Policy {
	t.Helper()
	p, err := policy.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// elastic is a job that may have 1 to most workers.
func elastic(id string, submit, work time.Duration, most int) Job {
	return Job{Arrival: trace.Arrival{ID: id, Submit: submit, Workers: 1}, Work: work, ETA: work, MinWorkers: 1, MaxWorkers: most}
}

func run(t *testing.T, cfg Config) (Result, []string) {
	t.Helper()
	var log []string
	cfg.Log = func(line []byte) { log = append(log, string(line)) }
	r, err := Run(cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(log, "\n"))
	}
	return r, log
}

func TestOneJobTakesItsPauseAndItsWork(t *testing.T) {
	r, log := run(t, Config{
		Jobs: []Job{elastic("a", 5*s, 160*s, 2)}, Nodes: 1, DevicesPerNode: 2,
		Policy: byName(t, "greedy"), Interval: 300 * s, RescaleCost: 30 * s,
	})
	o := r.Jobs[0]
	// 160 s of work at speed 1.6, after 30 s.
	if want := 5*s + 30*s + 100*s; o.End != want || o.Phase != cluster.Succeeded || o.Queueing != 0 || o.Rescales != 0 {
		t.Errorf("%+v, want an end at %v\n%s", o, want, strings.Join(log, "\n"))
	}
	if o.Held != 260*s || o.Work != 160*s {
		t.Errorf("held %v for %v of work", o.Held, o.Work)
	}
}

func TestARescaleKeepsTheWorkAndCostsAPause(t *testing.T) {
	// b comes at 10 s; greedy gives it half of a's devices at the interval's end.
	r, log := run(t, Config{
		Jobs:  []Job{elastic("a", 0, 1600*s, 2), elastic("b", 10*s, 50*s, 1)},
		Nodes: 1, DevicesPerNode: 2, Policy: byName(t, "greedy"), Interval: 300 * s, RescaleCost: 30 * s,
	})
	a, b := r.Jobs[0], r.Jobs[1]
	// b: from 300 s, with its pause, to 380 s. a: 270 s at 1.6 = 432 s of work by then;
	// alone on one device from 330 s; grown again at 600 s, having done 270 s more.
	// Left at 600 s: 1600 - 432 - 270 = 898 s, at 1.6 from 630 s on.
	end := 630*s + time.Duration(898.0/1.6*float64(s))
	if b.End != 380*s || b.Queueing != 290*s || a.Rescales != 2 || (a.End-end).Abs() > 2*time.Nanosecond {
		t.Errorf("a %+v\nb %+v\nwant b at 380s and a at %v\n%s", a, b, end, strings.Join(log, "\n"))
	}
}

func TestStartDelayKeepsDevicesAndTrainsNothing(t *testing.T) {
	r, _ := run(t, Config{
		Jobs: []Job{elastic("a", 0, 100*s, 1)}, Nodes: 1, DevicesPerNode: 1,
		Policy: byName(t, "greedy"), Interval: 300 * s, RescaleCost: 30 * s, StartDelay: 15 * s,
	})
	if r.Jobs[0].End != 145*s || r.Jobs[0].Held != 145*s {
		t.Errorf("%+v", r.Jobs[0])
	}
}

func TestBugsAndImpatienceEndJobs(t *testing.T) {
	buggy, stopped, waiting := elastic("buggy", 0, 1000*s, 1), elastic("stopped", 0, 1000*s, 1), elastic("waiting", 0, 1000*s, 1)
	buggy.Bug, stopped.Patience, waiting.Patience = 7*s, 100*s, 5*s
	r, log := run(t, Config{
		Jobs: []Job{buggy, stopped, waiting}, Nodes: 1, DevicesPerNode: 2, Policy: byName(t, "greedy"), Interval: 300 * s,
	})
	for i, want := range []Outcome{
		{ID: "buggy", Phase: cluster.Failed, End: 7 * s},
		{ID: "stopped", Phase: cluster.Stopped, End: 100 * s},
		{ID: "waiting", Phase: cluster.Stopped, End: 5 * s},
	} {
		if o := r.Jobs[i]; o.Phase != want.Phase || o.End != want.End {
			t.Errorf("%+v, want %s at %v\n%s", o, want.Phase, want.End, strings.Join(log, "\n"))
		}
	}
}

func TestALostNodeCostsWhatWasNotSaved(t *testing.T) {
	r, log := run(t, Config{
		Jobs: []Job{elastic("a", 0, 100*s, 1)}, Nodes: 2, DevicesPerNode: 1, Policy: byName(t, "greedy"), Interval: 300 * s,
		Failures: []Failure{{Node: 0, At: 50 * s, For: time.Hour}, {Node: 1, At: 50 * s, For: 20 * s}}, CheckpointEvery: 40 * s,
	})
	o := r.Jobs[0]
	// Both nodes go at 50 s with 40 s saved and their keys at 60 s; node 1 is back at 70 s and says that nothing is left on it.
	// If the job was on node 0, that is fenced at 72 s; either way 60 s are left.
	if o.Phase != cluster.Succeeded || o.End < 130*s || o.End > 133*s || o.Work != 100*s {
		t.Errorf("%+v\n%s", o, strings.Join(log, "\n"))
	}
}

// crowd is many jobs on few devices.
func crowd(n int, seed uint64) []Job {
	f := trace.File{Name: "crowd"}
	for i := range n {
		f.Arrivals = append(f.Arrivals, trace.Arrival{
			ID: fmt.Sprint(i), Submit: time.Duration(i/3) * 7 * s, Workers: 1 << (i % 3), Duration: time.Duration(20+i*i%97) * s,
		})
	}
	jobs, err := Model{MaxWorkers: 8, ETANoise: 0.1, Buggy: 0.1, Impatient: 0.1, Seed: seed}.Jobs(f)
	if err != nil {
		panic(err)
	}
	return jobs
}

func TestTheSameSeedGivesTheSameLog(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			hashes := make([]string, 4)
			var wg sync.WaitGroup
			for i := range hashes {
				wg.Go(func() {
					r, err := Run(Config{
						Jobs: crowd(40, uint64(i/2)), Nodes: 3, DevicesPerNode: 4, Policy: byName(t, name), Interval: 60 * s, RescaleCost: 5 * s,
						Failures: []Failure{{Node: 1, At: 100 * s, For: 50 * s}},
					})
					if err != nil {
						t.Error(err)
					}
					hashes[i] = r.LogSHA256
				})
			}
			wg.Wait()
			if hashes[0] != hashes[1] || hashes[2] != hashes[3] || hashes[0] == hashes[2] {
				t.Errorf("%q", hashes)
			}
		})
	}
}

func TestTheNumberOfCoresChangesNothing(t *testing.T) {
	hashes := map[string]bool{}
	for _, cores := range []int{1, 4} {
		before := runtime.GOMAXPROCS(cores)
		r, _ := run(t, Config{
			Jobs: crowd(60, 3), Nodes: 3, DevicesPerNode: 4, Policy: byName(t, "hu"), Interval: 60 * s, RescaleCost: 5 * s,
			Stopwatch: func() time.Duration { return time.Duration(len(hashes)) * time.Hour }, // what it says must not count
		})
		runtime.GOMAXPROCS(before)
		hashes[r.LogSHA256] = true
	}
	if len(hashes) != 1 {
		t.Errorf("on 1 and on 4 cores: %v", hashes)
	}
}

func TestManyMoreJobsThanDevices(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			r, _ := run(t, Config{Jobs: crowd(100, 1), Nodes: 1, DevicesPerNode: 1, Policy: byName(t, name), Interval: 300 * s})
			for _, o := range r.Jobs {
				if !o.Phase.Terminal() || o.End < o.Submit || o.Queueing > o.End-o.Submit {
					t.Errorf("%+v", o)
				}
			}
			if r.Rejected != 0 {
				t.Errorf("%d answers rejected", r.Rejected)
			}
		})
	}
}

func TestJobsWithListedSizes(t *testing.T) {
	three := elastic("three", 0, 1000*s, 0)
	three.Sizes, three.MinWorkers, three.MaxWorkers = []int{3, 6, 12}, 3, 12
	for _, name := range policy.Names() {
		r, log := run(t, Config{
			Jobs:  []Job{three, elastic("b", 10*s, 500*s, 8), elastic("c", 20*s, 500*s, 8)},
			Nodes: 2, DevicesPerNode: 7, Policy: byName(t, name), Interval: 60 * s,
		})
		for _, o := range r.Jobs {
			if o.Phase != cluster.Succeeded {
				t.Errorf("%s: %+v\n%s", name, o, strings.Join(log, "\n"))
			}
		}
		if r.Rejected != 0 {
			t.Errorf("%s: %d answers rejected", name, r.Rejected)
		}
	}
}

func TestStartCostsByModelAndSize(t *testing.T) {
	j := elastic("a", 0, 160*s, 2)
	j.Model = "bert"
	r, _ := run(t, Config{
		Jobs: []Job{j}, Nodes: 1, DevicesPerNode: 2, Policy: byName(t, "greedy"), Interval: 300 * s, RescaleCost: 30 * s,
		StartCosts: trace.Overhead{{Workers: 2, Model: "bert"}: 7 * s, {Workers: 1, Model: "bert"}: 50 * s, {Workers: 2, Model: "gpt"}: 90 * s},
	})
	if r.Jobs[0].End != 107*s {
		t.Errorf("ended at %v, want 107s: 7 s of pause and 160 s of work at 1.6", r.Jobs[0].End)
	}
}

// witness is a policy that notes down what it is told is left of jobs that run.
type witness struct {
	allocator.Policy
	left map[time.Duration]time.Duration // by moment of the decisions at intervals' ends
}

func (p witness) Allocate(in allocator.Input) allocator.Output {
	for _, j := range in.Jobs {
		if j.Workers > 0 && !in.Between {
			p.left[in.Now.Sub(zero)] = j.Work.Left
		}
	}
	return p.Policy.Allocate(in)
}

// Decisions follow the first arrival in steps of the interval, wherever that
// lies. What they are told is left is what is left then, not at some moment before.
func TestDecisionsAreToldWhatIsLeft(t *testing.T) {
	for _, submit := range []time.Duration{0, 89 * s, 299 * s} {
		w := witness{byName(t, "greedy"), map[time.Duration]time.Duration{}}
		run(t, Config{
			Jobs: []Job{elastic("a", submit, 2000*s, 1)}, Nodes: 1, DevicesPerNode: 1, Policy: w, Interval: 300 * s, RescaleCost: 30 * s,
		})
		if len(w.left) != 6 {
			t.Errorf("submitted at %v: %d decisions while it runs, want 6: %v", submit, len(w.left), w.left)
		}
		for at, left := range w.left {
			if want := 2000*s - (at - submit - 30*s); (left - want).Abs() > 2*time.Millisecond {
				t.Errorf("submitted at %v: at %v it is told that %v is left, not %v", submit, at, left, want)
			}
		}
	}
}

// A job that is halted before its first step has lost nothing, and is not held to its size for that.
func TestAHaltInThePauseOfAStartPinsNoJob(t *testing.T) {
	r, log := run(t, Config{
		Jobs:  []Job{elastic("a", 0, 1600*s, 2), elastic("b", 5*s, 50*s, 1)},
		Nodes: 1, DevicesPerNode: 2, Policy: byName(t, "greedy"), Interval: 20 * s, RescaleCost: 30 * s,
	})
	// a is halved at 20 s, having had 2 workers and no step, trains alone on one device from 50 s on, and
	// grows again at 120 s, the interval's end after b's.
	a, b := r.Jobs[0], r.Jobs[1]
	end := 150*s + time.Duration((1600-70)/1.6*float64(s))
	if b.End != 100*s || a.Rescales != 2 || (a.End-end).Abs() > 2*time.Nanosecond {
		t.Errorf("a %+v\nb %+v\nwant a at %v\n%s", a, b, end, strings.Join(log, "\n"))
	}
}

// sulky answers once and then only nonsense.
type sulky struct{ answered bool }

func (*sulky) Name() string { return "sulky" }

func (p *sulky) Allocate(in allocator.Input) allocator.Output {
	var out allocator.Output
	for _, j := range in.Jobs {
		d := allocator.Decision{Job: j.ID, Workers: 1}
		if p.answered {
			d.Workers = 3
		}
		out.Decisions = append(out.Decisions, d)
	}
	p.answered = true
	return out
}

func TestNonsenseIsRejectedAndWhatIsInForceStays(t *testing.T) {
	r, log := run(t, Config{
		Jobs: []Job{elastic("a", 0, 1000*s, 2)}, Nodes: 1, DevicesPerNode: 2, Policy: &sulky{}, Interval: 100 * s,
	})
	if r.Rejected == 0 || r.Jobs[0].End != 1000*s || !slices.ContainsFunc(log, func(l string) bool { return strings.Contains(l, "3 workers; it may have 0 or one of [1 2]") }) {
		t.Errorf("%d rejected, end %v\n%s", r.Rejected, r.Jobs[0].End, strings.Join(log, "\n"))
	}
}

// never gives no job anything.
type never struct{}

func (never) Name() string { return "never" }

func (never) Allocate(in allocator.Input) allocator.Output {
	var out allocator.Output
	for _, j := range in.Jobs {
		out.Decisions = append(out.Decisions, allocator.Decision{Job: j.ID})
	}
	return out
}

func TestARunThatGetsNowhereEnds(t *testing.T) {
	_, err := Run(Config{Jobs: []Job{elastic("a", 0, s, 1)}, Nodes: 1, DevicesPerNode: 1, Policy: never{}, Interval: 300 * s})
	if err == nil || !strings.Contains(err.Error(), "1 jobs have not ended: a (queued)") {
		t.Errorf("%v", err)
	}
}

func TestValidate(t *testing.T) {
	good := func() Config {
		return Config{Jobs: []Job{elastic("a", 0, s, 1)}, Nodes: 1, DevicesPerNode: 1, Policy: byName(t, "share")}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"nodes 0: use 1 or more", func(c *Config) { c.Nodes = 0 }},
		{"devices per node -1", func(c *Config) { c.DevicesPerNode = -1 }},
		{"no job to run", func(c *Config) { c.Jobs = nil }},
		{"interval -1s", func(c *Config) { c.Interval = -s }},
		{"give a policy or rules", func(c *Config) { c.Policy = nil }},
		{`job "a" needs 4 devices or more and the cluster has 1`, func(c *Config) { c.Jobs[0].MinWorkers, c.Jobs[0].MaxWorkers = 4, 4 }},
		{"may have 3 to 3 workers", func(c *Config) { c.Nodes = 4; c.Jobs[0].MinWorkers, c.Jobs[0].MaxWorkers = 3, 3 }},
		{"has no work", func(c *Config) { c.Jobs[0].Work = 0 }},
		{"comes before the one above it", func(c *Config) { c.Jobs = []Job{elastic("a", s, s, 1), elastic("b", 0, s, 1)} }},
		{"failure of node 1", func(c *Config) { c.Failures = []Failure{{Node: 1, For: time.Minute}} }},
	} {
		cfg := good()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want …%s…", err, c.want)
		}
	}
}
