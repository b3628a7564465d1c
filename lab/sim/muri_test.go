package sim

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

func muriFixture(t *testing.T) (trace.File, trace.Overhead) {
	t.Helper()
	f, err := os.Open("testdata/muri.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, err := trace.Read("muri.csv", f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.Open("testdata/muri_overhead.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	overhead, err := trace.ReadOverhead("muri_overhead.csv", g)
	if err != nil {
		t.Fatal(err)
	}
	return jobs, overhead
}

// The values are what Muri's simulator (github.com/Rivendile/Muri at 4e69a78,
// run_sim.py --scheme=yarn) says of the same 24 jobs on two nodes of eight devices.
func TestMuriAgreesWithItsSimulator(t *testing.T) {
	for _, c := range []struct {
		policy         string
		mean, makespan float64
	}{
		{"srtf", 5054.637561, 21610.922190},
		{"srsf", 5576.325649, 22641.181745},
		{"tiresias", 6699.566843, 21407.342100},
	} {
		t.Run(c.policy, func(t *testing.T) {
			file, overhead := muriFixture(t)
			file, err := MuriTrace(file)
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := Model{Rigid: true}.Jobs(file)
			if err != nil {
				t.Fatal(err)
			}
			rules, err := NewMuri(c.policy, overhead, 2, 8)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := run(t, Config{Jobs: jobs, Nodes: 2, DevicesPerNode: 8, Rules: rules})
			sum := r.Summary()
			end := sum.MakespanS + jobs[0].Submit.Seconds() // there it counts from 0
			if sum.Finished != 24 || math.Abs(sum.MeanCompletionS-c.mean) > 1e-5 || math.Abs(end-c.makespan) > 1e-5 {
				t.Errorf("%d finished, mean completion %.6f, last end %.6f; want %.6f and %.6f",
					sum.Finished, sum.MeanCompletionS, end, c.mean, c.makespan)
			}
		})
	}
}

func TestMuriRefuses(t *testing.T) {
	if _, err := NewMuri("magic", nil, 1, 1); err == nil || !strings.Contains(err.Error(), "the rules muri know srtf, srsf, tiresias") {
		t.Errorf("%v", err)
	}
	f := trace.File{Name: "x.csv", Arrivals: []trace.Arrival{{ID: "a", Workers: 1, Duration: time.Second}}}
	if _, err := MuriTrace(f); err == nil || !strings.Contains(err.Error(), `x.csv: job "a" has no iterations or no iter_time_ms`) {
		t.Errorf("%v", err)
	}
}

// strange are rules that end a job which they have never run.
type strange struct{}

func (strange) Instant(s *State) { s.Ends[0] = s.Now + time.Second }
func (strange) Workers(int) int  { return 4 }

func TestRulesThatTheCoordinatorDidNotCarryOutAreAnError(t *testing.T) {
	_, err := Run(Config{Jobs: []Job{elastic("a", 0, time.Minute, 2)}, Nodes: 1, DevicesPerNode: 4, Rules: strange{}})
	if err == nil || !strings.Contains(err.Error(), `job "a" has 0 workers and the rules have decided 4`) {
		t.Errorf("%v", err)
	}
}
