package goodput_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/goodput"
)

// train tells one loss each ten steps up to a step, by a curve.
func train(m *goodput.LossMeter, from, to int64, loss func(step int64) float64) {
	t := goodput.Told{Step: from}
	m.Fold(t)
	for s := from + 10; s <= to; s += 10 {
		t.Step = s
		if v := loss(s); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Bad++
		} else {
			t.Sum, t.Told = t.Sum+v, t.Told+1
		}
		m.Fold(t)
	}
}

func decaying(rate float64) func(int64) float64 {
	return func(s int64) float64 { return 0.2 + 2.1*math.Exp(-rate*float64(s)) }
}

// The older a job, the less its loss falls, whatever its scale.
func TestLossTellsOldFromYoung(t *testing.T) {
	var before float64
	for i, steps := range []int64{300, 600, 1200, 2400} {
		var m, scaled goodput.LossMeter
		train(&m, 0, steps, decaying(0.0015))
		train(&scaled, 0, steps, func(s int64) float64 { return 1000*decaying(0.0015)(s) - 7 })
		l, ok := goodput.LossOf(m.Windows)
		if !ok || l.Flat != "" || l.Fall <= 0 || l.Fall > 1 || i > 0 && l.Fall >= before {
			t.Errorf("after %d steps: %+v, %t; before %v", steps, l, ok, before)
		}
		if s, _ := goodput.LossOf(scaled.Windows); math.Abs(s.Fall-l.Fall) > 1e-9 {
			t.Errorf("after %d steps the fall is %v, and on another scale %v", steps, l.Fall, s.Fall)
		}
		before = l.Fall
	}
}

func TestLossThatTellsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		loss  func(int64) float64
		steps int64
		want  string
		ok    bool
	}{
		"one window": {decaying(0.01), 110, "", false},
		"constant":   {func(int64) float64 { return 2.3 }, 400, goodput.LossConstant, true},
		"zero":       {func(int64) float64 { return 0 }, 400, goodput.LossConstant, true},
		"converged":  {decaying(0.01), 2000, goodput.LossConstant, true},
		"rising":     {func(s int64) float64 { return float64(s) }, 400, goodput.LossRising, true},
		"rises again": {func(s int64) float64 {
			return decaying(0.01)(s) + max(0, float64(s-1000)/100)
		}, 1300, goodput.LossRising, true},
		"falls": {decaying(0.001), 700, "", true},
	} {
		var m goodput.LossMeter
		train(&m, 0, c.steps, c.loss)
		l, ok := goodput.LossOf(m.Windows)
		if ok != c.ok || l.Flat != c.want {
			t.Errorf("%s: %+v, %t", name, l, ok)
		}
		if told := goodput.LossRemedy(l.Flat); (told != "") != (l.Flat != "") {
			t.Errorf("%s: the remedy of %q is %q", name, l.Flat, told)
		}
	}
}

// What is not a number counts for no window, and is named where it is most of what is told.
func TestLossIsNotANumber(t *testing.T) {
	var m goodput.LossMeter
	train(&m, 0, 500, func(s int64) float64 {
		if s%50 == 0 {
			return math.Inf(1)
		}
		return decaying(0.002)(s)
	})
	if l, ok := goodput.LossOf(m.Windows); !ok || l.Flat != "" || m.NotNumbers() {
		t.Errorf("some infinite: %+v, %t, %t", l, ok, m.NotNumbers())
	}
	train(&m, 500, 600, func(int64) float64 { return math.NaN() })
	if !m.NotNumbers() {
		t.Error("after many numbers, what is told lately are none, and that is not seen")
	}
	var nan goodput.LossMeter
	train(&nan, 0, 500, func(int64) float64 { return math.NaN() })
	if len(nan.Windows) != 0 || !nan.NotNumbers() {
		t.Errorf("all NaN: %+v, %t", nan.Windows, nan.NotNumbers())
	}
	if !strings.Contains(goodput.LossRemedy(goodput.LossNotNumbers), "resume from a checkpoint before that") {
		t.Error("there is no remedy for it")
	}
}

// Generations go on with the windows of those before; steps that were lost count no more, and
// the first window stays.
func TestLossGoesOn(t *testing.T) {
	var m goodput.LossMeter
	train(&m, 0, 2500, decaying(0.0005))
	if len(m.Windows) != goodput.MaxLossWindows || m.Windows[0].Step != 100 || m.Windows[len(m.Windows)-1].Step != 2500 {
		t.Fatalf("%+v", m.Windows)
	}
	next := m.Next(2300)
	if last := next.Windows[len(next.Windows)-1]; last.Step != 2300 || len(m.Windows) != goodput.MaxLossWindows {
		t.Errorf("%+v", next.Windows)
	}
	train(&next, 2300, 2600, decaying(0.0005))
	if last := next.Windows[len(next.Windows)-1]; last.Step != 2600 || next.Windows[0].Step != 100 {
		t.Errorf("%+v", next.Windows)
	}
	// A report that goes backwards begins a window anew.
	before := len(next.Windows)
	next.Fold(goodput.Told{Step: 2400, Sum: 1, Told: 1})
	next.Fold(goodput.Told{Step: 2510, Sum: 3, Told: 2})
	if len(next.Windows) != before {
		t.Errorf("one loss made a window: %+v", next.Windows)
	}
}

// A window takes 100 steps and four losses, counted anew where steps or losses go back, as of another
// process, and what sums tell that are no numbers is left out.
func TestWindowsOfLosses(t *testing.T) {
	told := func(step int64, sum float64, n int64) goodput.Told {
		return goodput.Told{Step: step, Sum: sum, Told: n}
	}
	for name, c := range map[string]struct {
		reports []goodput.Told
		want    []float64
	}{
		"three losses":         {[]goodput.Told{told(0, 0, 0), told(200, 3, 3), told(210, 8, 4)}, []float64{2}},
		"before the first":     {[]goodput.Told{told(500, 100, 50), told(600, 110, 60)}, []float64{1}},
		"steps go back":        {[]goodput.Told{told(1000, 0, 0), told(400, 10, 5), told(1100, 15, 10)}, []float64{1}},
		"losses are told anew": {[]goodput.Told{told(0, 100, 50), told(100, 4, 4), told(220, 12, 12)}, []float64{1}},
		"an infinite sum":      {[]goodput.Told{told(0, 0, 0), told(100, math.Inf(1), 10), told(200, 20, 20), told(300, 30, 30)}, []float64{1}},
	} {
		var m goodput.LossMeter
		for _, r := range c.reports {
			m.Fold(r)
		}
		var means []float64
		for _, w := range m.Windows {
			means = append(means, w.Mean)
		}
		if !slices.Equal(means, c.want) {
			t.Errorf("%s: %v, want %v", name, means, c.want)
		}
	}
}

// A fall is of a hundred steps, however many a window takes, and is never below nothing.
func TestAFallIsOfAHundredSteps(t *testing.T) {
	for want, windows := range map[float64][]goodput.LossWindow{
		0.5:  {{Step: 100, Mean: 2}, {Step: 200, Mean: 1.5}, {Step: 300, Mean: 1}},
		0.05: {{Step: 1000, Mean: 2}, {Step: 2000, Mean: 1.5}, {Step: 3000, Mean: 1}},
		0:    {{Step: 100, Mean: 2}, {Step: 200, Mean: 1}, {Step: 300, Mean: 1.1}},
	} {
		if l, ok := goodput.LossOf(windows); !ok || l.Flat != "" || math.Abs(l.Fall-want) > 1e-9 {
			t.Errorf("%v: %+v, %t, want a fall of %v", windows, l, ok, want)
		}
	}
}
