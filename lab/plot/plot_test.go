package plot

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/sim"
)

// made is a run of one job with the figures that are drawn.
func made(policy string, nodes int, completion, queueing float64) *batch.Run {
	r := &batch.Run{Policy: policy, Trace: "t", Nodes: nodes, Summary: sim.Summary{MeanCompletionS: completion, MeanQueueingS: queueing}}
	r.Result.Jobs = []sim.Outcome{{Phase: cluster.Succeeded, End: time.Duration(completion * float64(time.Second))}}
	return r
}

func TestPlotsTellPoliciesApartWithoutColour(t *testing.T) {
	seen := map[string]string{}
	for i := range 2 * len(marks) {
		m := markOf(i)
		key := m.dash + m.shape
		if i >= len(marks) {
			key += m.colour // by then colour has to help
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same dash and shape", m.colour, other)
		}
		seen[key] = m.colour
	}
}

func TestPlotAxes(t *testing.T) {
	p := panels()[2]
	runs := []*batch.Run{made("greedy", 10, 100, 0), made("hu", 10, 110, 0), made("greedy", 20, 100, 0), made("hu", 20, 80, 0)}
	batch.Compare(runs)
	a := p.axes(runs) // from -9.1 to 25
	if a.bottom != -10 || a.top != 30 || a.step != 10 || a.y(0) <= a.y(25) || a.x(20) <= a.x(10) {
		t.Errorf("%+v", a)
	}
	if svg := p.draw(runs, []string{"greedy", "hu"}); strings.Count(svg, "<polyline") != 2 || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("%s", svg)
	}
	for most, want := range map[float64]string{10: ", seconds", 300: ", minutes", 4 * 3600: ", hours", 1e6: ", days"} {
		if unit, _ := timeUnit(most); unit != want {
			t.Errorf("%v: %s", most, unit)
		}
	}
	one := []*batch.Run{made("greedy", 10, 0, 0), made("hu", 10, 0, 0)} // nothing finished
	batch.Compare(one)
	if svg := panels()[0].draw(one, []string{"greedy", "hu"}); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("%s", svg)
	}
}
