package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

// listener is a policy that notes down the questions it is asked about one job that runs.
type listener struct {
	allocator.Policy
	heard []allocator.JobView
}

func (p *listener) Allocate(in allocator.Input) allocator.Output {
	if len(in.Jobs) > 0 && in.Jobs[0].Workers > 0 && !in.Between {
		p.heard = append(p.heard, in.Jobs[0])
	}
	return p.Policy.Allocate(in)
}

// What is told of a job reaches decisions through the records alone, and what is not
// told is measured by production code from what the workers report.
func TestWhatIsToldAndWhatIsMeasured(t *testing.T) {
	truth := Speed{1, 1.9, 3.4}
	for _, know := range Knows() {
		p := &listener{Policy: byName(t, "greedy")}
		j := elastic("a", 0, 3*time.Hour, 4)
		j.Speed = truth
		run(t, Config{Jobs: []Job{j}, Nodes: 1, DevicesPerNode: 4, Policy: p, Interval: 15 * s, RescaleCost: 20 * s, Know: Know(know)})
		if len(p.heard) < 5 {
			t.Fatalf("%s: only %d questions while it runs", know, len(p.heard))
		}
		first, last := p.heard[0], p.heard[len(p.heard)-1]
		told := know == string(KnowAll) || know == string(KnowCurves)
		if told != (first.Speeds != nil) || told && !near(first.Speeds, truth, 0.03) {
			t.Errorf("%s: speeds %v at first; the truth is %v", know, first.Speeds, truth)
		}
		if told && first.StartCost(2) != 20*s {
			t.Errorf("%s: a start is said to cost %v", know, first.StartCost(2))
		}
		if know == string(KnowNothing) {
			if last.Work.Known {
				t.Errorf("%s: %v are said to be left", know, last.Work.Left)
			}
			measured(t, know, last)
			continue
		}
		if unmeasured := know == string(KnowSteps); unmeasured == first.Work.Known { // steps become work once their speed is known
			t.Errorf("%s: at first %v are said to be left", know, first.Work)
		}
		var known []allocator.JobView
		for i := 0; i < len(p.heard); i += 20 { // with the first measurements it may rise a little
			if p.heard[i].Work.Known {
				known = append(known, p.heard[i])
			}
		}
		if len(known) < 5 || !last.Work.Known || !slices.IsSortedFunc(known, func(x, y allocator.JobView) int {
			return int(y.Work.Left - x.Work.Left)
		}) {
			t.Errorf("%s: what is left does not fall: %v to %v", know, first.Work, last.Work)
		}
		measured(t, know, last)
	}
}

// measured demands that something is known of the job's speed, and of the cost of its start.
func measured(t *testing.T, know string, v allocator.JobView) {
	t.Helper()
	if v.Speeds == nil {
		t.Errorf("%s: nothing was measured of its speed", know)
	}
	if cost := v.StartCost(v.Workers); (cost - 20*s).Abs() > s {
		t.Errorf("%s: a start is taken to cost %v", know, cost)
	}
}

func near(got, want []float64, by float64) bool {
	return slices.EqualFunc(got, want, func(x, y float64) bool { return math.Abs(x/y-1) <= by })
}
