package muri

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

func fixture(t *testing.T) (trace.File, trace.Overhead) {
	t.Helper()
	f, err := os.Open("testdata/trace.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, err := trace.Read("muri.csv", f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.Open("testdata/overhead.csv")
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
// run_sim.py --scheme=yarn) gives for the same 24 jobs on two nodes of eight devices.
func TestAgreesWithItsSimulator(t *testing.T) {
	for _, c := range []struct {
		policy         string
		mean, makespan float64
	}{
		{"srtf", 5054.637561, 21610.922190},
		{"srsf", 5576.325649, 22641.181745},
		{"tiresias", 6699.566843, 21407.342100},
	} {
		t.Run(c.policy, func(t *testing.T) {
			file, overhead := fixture(t)
			rules, jobs, err := New(c.policy, file, Setup{Machines: sim.Machines{Nodes: 2, DevicesPerNode: 8}, Overhead: overhead})
			if err != nil {
				t.Fatal(err)
			}
			r, err := sim.Run(sim.Config{Jobs: jobs, Nodes: 2, DevicesPerNode: 8, Rules: rules})
			if err != nil {
				t.Fatal(err)
			}
			sum := r.Summary()
			end := sum.MakespanS + jobs[0].Submit.Seconds() // there it counts from 0
			if sum.Finished != 24 || math.Abs(sum.MeanCompletionS-c.mean) > 1e-5 || math.Abs(end-c.makespan) > 1e-5 {
				t.Errorf("%d finished, mean completion %.6f, last end %.6f; want %.6f and %.6f",
					sum.Finished, sum.MeanCompletionS, end, c.mean, c.makespan)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	if _, _, err := New("magic", trace.File{}, Setup{}); err == nil || !strings.Contains(err.Error(), "the rules muri know srtf, srsf, tiresias") {
		t.Errorf("%v", err)
	}
	f := trace.File{Name: "x.csv", Arrivals: []trace.Arrival{{ID: "a", Workers: 1, Duration: time.Second}}}
	if _, _, err := New("srtf", f, Setup{}); err == nil || !strings.Contains(err.Error(), `x.csv: job "a" has no iterations or no iter_time_ms`) {
		t.Errorf("%v", err)
	}
}
