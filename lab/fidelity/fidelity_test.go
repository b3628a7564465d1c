package fidelity

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

func TestAMixDependsOnItsSeedAlone(t *testing.T) {
	for n := 1; n <= 20; n++ {
		m := Draw(1, n, 8, 1)
		again := Draw(1, n, 8, 1)
		if len(m.Jobs) < fewestJobs || len(m.Jobs) > mostJobs || len(m.Jobs) != len(again.Jobs) {
			t.Fatalf("mix %d has %d jobs, then %d", n, len(m.Jobs), len(again.Jobs))
		}
		for i, j := range m.Jobs {
			switch {
			case j.Work() < shortestWork-longestStep || j.Work() > longWork+longestStep:
				t.Errorf("mix %d: job %s has %v of work", n, j.Name, j.Work())
			case len(j.Speeds) != 4 || j.Speeds[0] != 1 || j.Speeds[3] <= 1 || j.Speeds[3] >= 8:
				t.Errorf("mix %d: job %s has the speeds %v", n, j.Name, j.Speeds)
			case i > 0 && j.At <= m.Jobs[i-1].At, j.At > 2*arrivals:
				t.Errorf("mix %d: job %s comes at %v", n, j.Name, j.At)
			case j.Steps != again.Jobs[i].Steps:
				t.Errorf("mix %d: job %s has %d steps, then %d", n, j.Name, j.Steps, again.Jobs[i].Steps)
			}
		}
	}
	if whole, tenth := Draw(1, 1, 8, 1), Draw(1, 1, 8, 0.1); tenth.Jobs[3].Work() > whole.Jobs[3].Work()/8 || tenth.Jobs[3].At > whole.Jobs[3].At/8 {
		t.Errorf("a tenth of %v at %v is %v at %v", whole.Jobs[3].Work(), whole.Jobs[3].At, tenth.Jobs[3].Work(), tenth.Jobs[3].At)
	}
	if a, b := Draw(1, 1, 8, 1), Draw(2, 1, 8, 1); a.Jobs[0].Steps == b.Jobs[0].Steps && a.Jobs[0].StepTime == b.Jobs[0].StepTime {
		t.Error("two seeds draw the same job")
	}
}

func TestSimulatedStartsCostWhatOtherMixesShowed(t *testing.T) {
	costs := []cost{{1, 2 * time.Second}, {1, 4 * time.Second}, {8, 10 * time.Second}}
	if o := bySize(costs); o[trace.OverheadKey{Workers: 1, Model: model}] != 3*time.Second || o[trace.OverheadKey{Workers: 8, Model: model}] != 10*time.Second {
		t.Errorf("costs by size: %v", o)
	}
	o := Options{Nodes: 2, DevicesPerNode: 4, Interval: 5 * time.Second}
	m := Mix{Number: 1, Jobs: []Job{{Name: "a", Steps: 100, StepTime: 100 * time.Millisecond, Speeds: []float64{1}}}}
	s, err := simulate(&o, m, "greedy", costs)
	if err != nil {
		t.Fatal(err)
	}
	if s.MeanCompletionS < 13 || s.MeanCompletionS > 13.1 {
		t.Errorf("10 s of work after a start of 3 s took %.2f s", s.MeanCompletionS)
	}
}
