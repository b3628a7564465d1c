package goodput_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
)

func point(workers int, rate float64) goodput.Point {
	return goodput.Point{Workers: workers, Nodes: 1, PerSecond: rate, Low: 0.98 * rate, High: 1.02 * rate, Windows: 20}
}

// step is what a step of the jobs here takes.
var step = goodput.Step{Batch: 64}

func TestFit(t *testing.T) {
	none := goodput.Point{}
	for _, c := range []struct {
		name       string
		seen       []goodput.Point
		at         int
		want, tell float64 // within
	}{
		{"nothing seen", nil, 8, 4.096, 1e-9},
		{"only nonsense seen", []goodput.Point{none, point(0, 5), point(2, math.NaN()), point(2, -1), point(4, math.Inf(1)), {Workers: 2, PerSecond: 3}}, 8, 4.096, 1e-9},
		{"of one size: the default's shape", []goodput.Point{point(4, 25.6)}, 1, 10, 1e-6},
		{"of one size: and above", []goodput.Point{point(4, 25.6)}, 8, 40.96, 1e-6},
		{"through what was measured", []goodput.Point{point(1, 10), point(4, 36)}, 4, 36, 0.2},
		{"between two sizes", []goodput.Point{point(1, 10), point(4, 36)}, 2, 19, 1},
		{"beyond, of one that scales well", []goodput.Point{point(1, 10), point(2, 19.9), point(4, 39.5)}, 8, 76, 8},
		{"beyond, of one that does not", []goodput.Point{point(1, 10), point(2, 11), point(4, 11.5)}, 8, 12, 1.2},
		{"no workers", []goodput.Point{point(1, 10)}, 0, 0, 0},
	} {
		if got := goodput.Fit(c.seen, step).Speed(c.at, 1); !(math.Abs(got.PerSecond-c.want) <= c.tell) || got.Low > got.PerSecond || got.High < got.PerSecond {
			t.Errorf("%s: %d workers have speed %+v, want %v", c.name, c.at, got, c.want)
		}
	}
}

// Two constants of the network: worlds across nodes are predicted by such, those within one by theirs.
func TestFitKeepsSpansApart(t *testing.T) {
	truth := func(k, nodes int) float64 {
		comm := 0.01
		if nodes > 1 {
			comm = 0.2
		}
		return 1 / (0.8/float64(k) + comm*(1-1/float64(k)))
	}
	var seen []goodput.Point
	for _, at := range [][2]int{{1, 1}, {2, 1}, {4, 2}} {
		p := point(at[0], truth(at[0], at[1]))
		p.Nodes = at[1]
		seen = append(seen, p)
	}
	m := goodput.Fit(seen, step)
	for _, at := range [][2]int{{4, 1}, {2, 1}, {8, 2}} {
		if got, want := m.Speed(at[0], at[1]).PerSecond, truth(at[0], at[1]); math.Abs(math.Log(got/want)) > 0.25 {
			t.Errorf("%d workers on %d nodes: %v, want %v", at[0], at[1], got, want)
		}
	}
}

// A batch of twice the samples makes half the steps.
func TestFitConvertsBatches(t *testing.T) {
	p := point(2, 5)
	p.Batch = 128
	if got := goodput.Fit([]goodput.Point{p}, step).Speed(2, 1).PerSecond; math.Abs(got-10) > 1e-9 {
		t.Errorf("%v steps/s of 64 samples, want 10", got)
	}
}

// A size that was measured to be slower than a smaller one is told to be as fast, and no faster.
func TestCurveOfMeasurementsThatFall(t *testing.T) {
	curve := goodput.Fit([]goodput.Point{point(1, 10), point(2, 18), point(4, 12), point(8, 30)}, step).Curve([]int{1, 2, 4, 8}, 8)
	if curve[2].PerSecond != curve[1].PerSecond || !curve[2].Measured || curve[3].PerSecond < 25 {
		t.Errorf("%+v", curve)
	}
}

// On random measurements the curve never falls, is positive and finite, its interval
// holds it, and the order of the measurements does not matter.
func TestFitProperties(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 8, 16, 64, 1024}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var seen []goodput.Point
		for range r.IntN(8) {
			p := point(1<<r.IntN(7), math.Exp(10*r.Float64()-5))
			p.Nodes, p.Windows, p.Batch = 1+r.IntN(2), 1+r.IntN(40), 64<<r.IntN(2)
			seen = append(seen, p)
		}
		curve := goodput.Fit(seen, step).Curve(sizes, 8)
		r.Shuffle(len(seen), func(i, k int) { seen[i], seen[k] = seen[k], seen[i] })
		again := goodput.Fit(seen, step).Curve(sizes, 8)
		for i, e := range curve {
			if !(e.PerSecond > 0) || math.IsInf(e.PerSecond, 0) || e.Low > e.PerSecond || e.High < e.PerSecond || i > 0 && e.PerSecond < curve[i-1].PerSecond {
				t.Fatalf("seed %d, %d workers: %+v of %+v", seed, sizes[i], e, seen)
			}
			if math.Abs(again[i].PerSecond/e.PerSecond-1) > 1e-6 {
				t.Fatalf("seed %d, %d workers: in another order %v becomes %v", seed, sizes[i], e, again[i])
			}
		}
	}
}

// The interval of a size that was not measured holds the truth nine times in ten, on
// curves as the model knows them, measured at two sizes with noise of 3 %.
func TestIntervalsHold(t *testing.T) {
	held, all := 0, 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, c := 0.2*r.Float64(), 0.3*r.Float64()
		truth := func(k int) float64 { return 1 / (a + (1-a)/float64(k) + c*(1-1/float64(k))) }
		var seen []goodput.Point
		for _, k := range []int{2, 4} {
			seen = append(seen, point(k, truth(k)*math.Exp(0.03*r.NormFloat64())))
		}
		m := goodput.Fit(seen, step)
		for _, k := range []int{1, 8} {
			e := m.Speed(k, 1)
			all++
			if e.Low <= truth(k) && truth(k) <= e.High {
				held++
			}
		}
	}
	if share := float64(held) / float64(all); share < 0.85 {
		t.Errorf("the intervals hold %.0f %% of the speeds", 100*share)
	}
}

func TestPredictEnd(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e, ok := goodput.PredictEnd(now, goodput.Rest{Steps: 1000, Speed: goodput.Estimate{PerSecond: 10, Low: 8, High: 12.5}, Pace: 0.5, Wait: 30 * time.Second})
	if !ok || e.At.Sub(now) != 230*time.Second || e.Low.Sub(now) != 190*time.Second || e.High.Sub(now) != 280*time.Second {
		t.Errorf("%v: %v, %v to %v", ok, e.At.Sub(now), e.Low.Sub(now), e.High.Sub(now))
	}
	if _, ok := goodput.PredictEnd(now, goodput.Rest{Steps: 5}); ok {
		t.Error("an end without a speed")
	}
	if e, _ := goodput.PredictEnd(now, goodput.Rest{Steps: math.MaxInt64, Speed: goodput.Estimate{PerSecond: 1e-300}}); e.At.Year() != 2036 {
		t.Errorf("the end of all days is %v", e.At)
	}
}
