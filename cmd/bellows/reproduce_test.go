package main

import (
	"math"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/sim"
)

// made is a run with the figures that reproduce looks at.
func made(policy string, nodes int, completion, queueing float64) *simulated {
	return &simulated{Policy: policy, Trace: "t", Nodes: nodes, Summary: sim.Summary{MeanCompletionS: completion, MeanQueueingS: queueing}}
}

func TestHuFiguresStandNextToThePublishedOnes(t *testing.T) {
	runs := []*simulated{
		made("greedy", 110, 120, 10), made("hu", 110, 100, 9),
		made("greedy", 150, 110, 8), made("hu", 150, 100, 4),
	}
	compare(runs)
	found := map[string]float64{}
	for _, f := range huTimes(runs) {
		if f.Published != nil {
			found["9"] = f.Ours
			if f.Nodes != 150 || *f.Published != -32 {
				t.Errorf("%+v", f)
			}
		}
	}
	for _, f := range huMore(runs, "11", 17.4, "at most") {
		if f.Published != nil {
			found["11"] = f.Ours
			if f.Nodes != 110 || f.Note != "at most" {
				t.Errorf("%+v", f)
			}
		}
	}
	if found["9"] != -50 || math.Abs(found["11"]-20) > 1e-9 {
		t.Errorf("%v", found)
	}
}

func TestPlotsTellPoliciesApartWithoutColour(t *testing.T) {
	seen := map[string]string{}
	for i := range 2 * len(plotMarks) {
		m := plotMarkOf(i)
		key := m.dash + m.shape
		if i >= len(plotMarks) {
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
	runs := []*simulated{made("greedy", 10, 100, 0), made("hu", 10, 110, 0), made("greedy", 20, 100, 0), made("hu", 20, 80, 0)}
	compare(runs)
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
	one := []*simulated{made("greedy", 10, 0, 0), made("hu", 10, 0, 0)} // nothing finished
	compare(one)
	if svg := panels()[0].draw(one, []string{"greedy", "hu"}); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("%s", svg)
	}
}
