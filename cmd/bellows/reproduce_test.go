package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
)

// made is a run of one job with the figures that reproduce looks at.
func made(policy string, nodes int, completion, queueing float64) *simulated {
	r := &simulated{Policy: policy, Trace: "t", Nodes: nodes, Summary: sim.Summary{MeanCompletionS: completion, MeanQueueingS: queueing}}
	r.result.Jobs = []sim.Outcome{{Phase: cluster.Succeeded, End: time.Duration(completion * float64(time.Second))}}
	return r
}

// The slower one's user stops the long job, which the faster one still finishes.
func TestMoreJobsAreOfThoseThatBothFinished(t *testing.T) {
	greedy, hu := made("greedy", 10, 100, 0), made("hu", 10, 550, 0)
	long := sim.Outcome{Phase: cluster.Stopped, End: 1010 * time.Second}
	greedy.result.Jobs = append(greedy.result.Jobs, long)
	hu.result.Jobs[0].End = 80 * time.Second
	long.Phase = cluster.Succeeded
	hu.result.Jobs = append(hu.result.Jobs, long)
	compare([]*simulated{greedy, hu})
	if hu.AdditionalJobsPer100 == nil || math.Abs(*hu.AdditionalJobsPer100-25) > 1e-9 {
		t.Errorf("got %v, want 25", hu.AdditionalJobsPer100)
	}
}

func TestTroublesStandBesideWhatTheyCost(t *testing.T) {
	v := huVariants()
	plain, noise := v[0], v[2]
	without := huMore(runsWith(120), plain)
	with := huMore(runsWith(115), noise)
	rows := huFewer(without, with, noise)
	if len(rows) != 1 || math.Abs(rows[0].Ours-5) > 1e-9 || rows[0].Published != nil || rows[0].Figure != "13" || rows[0].Note != "published: 0.6 to 2.4" {
		t.Errorf("%+v", rows)
	}
	if with[0].Published != nil || without[0].Published == nil || *without[0].Published != 17.4 {
		t.Errorf("published stand where nothing was: %+v, or not where it was: %+v", with, without)
	}
	for _, v := range v {
		if v.less != "" && !slices.ContainsFunc(huVariants(), func(o huVariant) bool { return o.figure == v.less }) {
			t.Errorf("figure %s is compared with %s, which there is not", v.figure, v.less)
		}
	}
}

// runsWith are greedy's mean completion and that of hu, 100.
func runsWith(greedy float64) []*simulated {
	runs := []*simulated{made("greedy", 110, greedy, 0), made("hu", 110, 100, 0)}
	compare(runs)
	return runs
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
	for _, f := range huMore(runs, huVariant{figure: "11", most: 17.4, note: "at most"}) {
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
