package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/trace"
)

func TestSpeed(t *testing.T) {
	for k, want := range map[int]float64{1: 1, 2: 1.6, 4: 2.56, 16: 6.5536} {
		if got := Speed(nil).On(k); math.Abs(got-want) > 1e-12 {
			t.Errorf("paper's speed on %d: %v, want %v", k, got, want)
		}
	}
	if s := (Speed{1, 1.5, 2}); s.On(1) != 1 || s.On(4) != 2 || s.On(64) != 2 {
		t.Error("a curve is read wrongly, or not flat beyond its end")
	}
}

func TestModel(t *testing.T) {
	profile := trace.Profile{
		{Device: "T4", Model: "bert", BatchSize: 8}: {{Workers: 1, Rate: 2, Target: 1200}, {Workers: 2, Rate: 3, Target: 1200}},
	}
	four := trace.Arrival{ID: "four", Workers: 4, Duration: time.Hour}
	bert := trace.Arrival{ID: "bert", Workers: 2, Duration: time.Hour, Model: "bert", BatchSize: 8, Iterations: 600}
	open := bert
	open.Duration = 0
	target := open
	target.Iterations = 0
	six := trace.Arrival{ID: "six", Workers: 6, Duration: time.Hour}
	for _, c := range []struct {
		name  string
		model Model
		job   trace.Arrival
		want  time.Duration // work
		fault string
	}{
		{"paper", Model{MaxWorkers: 8}, four, time.Duration(2.56 * float64(time.Hour)), ""},
		{"cut", Model{MaxWorkers: 8, Longest: time.Minute}, four, time.Duration(2.56 * float64(time.Minute)), ""},
		{"profile", Model{MaxWorkers: 8, Profile: profile}, bert, 90 * time.Minute, ""},
		{"duration from the profile", Model{MaxWorkers: 8, Profile: profile}, open, 5 * time.Minute, ""},
		{"steps from the profile", Model{MaxWorkers: 8, Profile: profile}, target, 10 * time.Minute, ""},
		{"no duration", Model{MaxWorkers: 8}, open, 0, `x.csv: job "bert": the trace has no duration`},
		{"no speed", Model{MaxWorkers: 8, Profile: profile}, four, 0, "the profile has no speed for it"},
		{"rigid six", Model{Rigid: true}, six, 0, "it asks for 6 devices: worlds have 1, 2, 4, 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs, err := c.model.Jobs(trace.File{Name: "x.csv", Arrivals: []trace.Arrival{c.job}})
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("got %v, want …%s…", err, c.fault)
				}
				return
			}
			if err != nil || (jobs[0].Work-c.want).Abs() > time.Microsecond || jobs[0].ETA != jobs[0].Work {
				t.Errorf("%+v, %v; want work %v", jobs, err, c.want)
			}
		})
	}
}

func TestModelDrawsFates(t *testing.T) {
	f := trace.File{}
	for range 4000 {
		f.Arrivals = append(f.Arrivals, trace.Arrival{ID: "x", Workers: 1, Duration: time.Hour})
	}
	jobs, err := Model{MaxWorkers: 1, ETANoise: 0.1, Buggy: 0.15, Impatient: 0.1, Seed: 7}.Jobs(f)
	if err != nil {
		t.Fatal(err)
	}
	buggy, impatient, low, high := 0, 0, math.Inf(1), 0.0
	for _, j := range jobs {
		if j.Bug > 0 {
			buggy++
		}
		if j.Bug > bugsWithin+1 {
			t.Errorf("bug at %v", j.Bug)
		}
		if j.Patience > 0 {
			impatient++
		}
		r := float64(j.ETA) / float64(j.Work)
		low, high = min(low, r), max(high, r)
	}
	if math.Abs(float64(buggy)-600) > 100 || math.Abs(float64(impatient)-400) > 80 || low < 0.9 || low > 0.91 || high > 1.1 || high < 1.09 {
		t.Errorf("%d buggy, %d impatient, noise %v to %v", buggy, impatient, low, high)
	}
	if jobs, err = (Model{MaxWorkers: 1, Shortest: 2 * time.Hour}).Jobs(f); err != nil || len(jobs) != 0 {
		t.Errorf("%d short jobs were kept, %v", len(jobs), err)
	}
}

func TestJobIDsAreOnesThatTheCoordinatorTakes(t *testing.T) {
	for _, c := range []struct {
		index int
		want  cluster.JobID
	}{{0, "j0000000-aaaaaa"}, {33, "j0000033-aaaabb"}, {49994, "j0049994-aabq2k"}} {
		if got := jobID(c.index); got != c.want {
			t.Errorf("%d: %s, want %s", c.index, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	r := Result{Jobs: []Outcome{
		{Phase: cluster.Succeeded, Submit: 10 * time.Second, End: 20 * time.Second, Deadline: 20 * time.Second, Rescales: 2, Work: 8 * time.Second, Held: 9 * time.Second},
		{Phase: cluster.Succeeded, Submit: 20 * time.Second, End: 50 * time.Second, Deadline: 49 * time.Second, Queueing: 4 * time.Second},
		{Phase: cluster.Failed, Submit: 20 * time.Second, End: 60 * time.Second, Deadline: 90 * time.Second, Held: time.Second},
	}}
	s := r.Summary()
	third := 1.0 / 3
	if s.Jobs != 3 || s.Finished != 2 || s.Dropped != 1 || s.MeanCompletionS != 20 || s.MedianCompletionS != 10 || s.P95CompletionS != 30 ||
		s.MeanQueueingS != 4*third || s.LongestQueueingS != 4 || s.MakespanS != 50 || s.RescalesPerJob != 2*third || *s.DeadlineSatisfied != third || s.ScalingEfficiency != 0.8 {
		t.Errorf("%+v, deadlines %v", s, *s.DeadlineSatisfied)
	}
	if at, ok := r.NthEnd(2); !ok || at != 50*time.Second {
		t.Errorf("second end at %v, %t", at, ok)
	}
	if _, ok := r.NthEnd(3); ok || r.FinishedBy(49*time.Second) != 1 {
		t.Error("counted a job that did not finish")
	}
}

func TestAgendaKeepsTheOrderOfNoting(t *testing.T) {
	var a agenda
	var got []int
	for i, at := range []time.Duration{3, 1, 2, 1, 3, 1} {
		a.at(at, func() { got = append(got, i) })
	}
	for _, now := range []time.Duration{0, 1, 3} {
		for {
			do, ok := a.due(now)
			if !ok {
				break
			}
			do()
		}
		got = append(got, -1)
	}
	want := []int{-1, 1, 3, 5, -1, 2, 0, 4, -1}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
