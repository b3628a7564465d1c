package wei

import (
	"math"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
)

// A task alone takes 300 s on four processes under all speeds, and at 200 s it is old.
func TestATaskAloneTakes300Seconds(t *testing.T) {
	for _, name := range Loads() {
		jobs, terms, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		took, done := 0.0, 0.0
		for _, until := range []float64{aged, 1} {
			at := sim.Standing{Placement: []int{4}, Batch: 1, Done: done}
			v, errPace := terms.Pace(jobs[0], at)
			gain, _ := terms.Worth(jobs[0], at)
			if errPace != nil {
				t.Fatal(errPace)
			}
			took, done = took+(until-done)*jobs[0].Work.Seconds()/(v*gain), until
			if until == aged && math.Abs(took-200) > 1e-6 {
				t.Errorf("%s: it is old after %v s, want 200", name, took)
			}
		}
		if math.Abs(took-300) > 1e-6 {
			t.Errorf("%s: alone it takes %v s, want 300", name, took)
		}
	}
}

// The windows of the stated curve order tasks as the paper's do: the further one has come, the less it falls.
func TestLossesTellWhoIsOlder(t *testing.T) {
	var m goodput.LossMeter
	last, windows := math.Inf(1), 0
	for n := 0; n <= iterations; n += 2 * goodput.LossSteps {
		done := (float64(n) + 0.5) / iterations
		m.Fold(told(done))
		l, ok := goodput.LossOf(m.Windows)
		if !ok {
			continue
		}
		windows++
		if l.Flat != "" || windows > 4 && l.Fall >= last {
			t.Errorf("with %.2f of its work done its loss falls by %+v, after %v", done, l, last)
		}
		last = l.Fall
	}
	if first, end := told(1.0/iterations).Sum, told(1); math.Abs(first-math.Log(10)) > 0.01 || last > 0.05 || windows < 12 || end.Told != iterations {
		t.Errorf("the first loss is %v; at the end %+v and a fall of %v", first, end, last)
	}
}

// With the speeds that the paper's times imply, the policy that sees losses gives its times, and
// share those of its training without adjustment: so losses move processes as its allocator does.
func TestLossesGiveThePapersTimes(t *testing.T) {
	for name, want := range map[string]map[string][2]float64{
		"pair-512-implied": {"share": {367.5, 567.5}, "convergence": {320.6, 540.8}},
		"pair-128-implied": {"share": {438.2, 615.3}, "convergence": {337.3, 598.5}},
	} {
		for p, ends := range want {
			r := play(t, name, p, 1)
			for i, o := range r.Jobs {
				if o.Phase != cluster.Succeeded || math.Abs(o.End.Seconds()-ends[i]) > 2 {
					t.Errorf("%s under %s: task %d %s after %.1f s, published %.1f", name, p, i, o.Phase, o.End.Seconds(), ends[i])
				}
			}
		}
	}
}

// Eight tasks on 32 devices all end, and losses move processes more than once.
func TestEightTasks(t *testing.T) {
	r := play(t, "eight-512-power", "convergence", 8)
	rescales := 0
	for _, o := range r.Jobs {
		if rescales += o.Rescales; o.Phase != cluster.Succeeded {
			t.Errorf("%s %s", o.ID, o.Phase)
		}
	}
	if len(r.Jobs) != 8 || rescales < 8 {
		t.Errorf("%d tasks, %d rescales", len(r.Jobs), rescales)
	}
}

func play(t *testing.T, name, policyName string, nodes int) sim.Result {
	t.Helper()
	jobs, terms, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.ByName(policyName)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(sim.Config{Jobs: jobs, Nodes: nodes, DevicesPerNode: 4, Policy: p, Interval: sim.Seconds(1), Terms: terms})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatTheRulesDoNotKnow(t *testing.T) {
	if _, _, err := Read("pair-256"); err == nil || !strings.Contains(err.Error(), "pair-512-implied") {
		t.Error(err)
	}
	jobs, terms, err := Read("pair-512-power")
	if err != nil {
		t.Fatal(err)
	}
	c := sim.Config{Jobs: jobs, Nodes: 1, DevicesPerNode: 4, Interval: sim.Seconds(10), Terms: terms, Know: sim.KnowSteps}
	if c.Policy, err = policy.ByName("convergence"); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "know steps: losses are told") {
		t.Error(err)
	}
}
