package solve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// randomStep makes a one-step problem: concave curves, or rough ones that fall in places.
func randomStep(seed uint64, jobs, devices int, counts []int, rough bool) *solve.OneStep {
	r := rand.New(rand.NewPCG(seed, 11))
	p := &solve.OneStep{Devices: devices, Counts: counts}
	for range jobs {
		base, weight := 0.5+0.48*r.Float64(), math.Exp(r.NormFloat64())
		values := make([]float64, len(counts))
		for k, c := range counts {
			if c > 0 {
				values[k] = weight * math.Pow(float64(c), base)
			}
			if rough {
				values[k] *= 1 + 0.15*r.NormFloat64()
			}
		}
		p.Values = append(p.Values, values)
	}
	return p
}

func upTo(n int) (counts []int) {
	for c := 1; c <= n; c++ {
		counts = append(counts, c)
	}
	return counts
}

// bestStep is the best value there is, by looking at all counts.
func bestStep(p *solve.OneStep, i, left int) float64 {
	if i == len(p.Values) {
		return 0
	}
	best := math.Inf(-1)
	for k, c := range p.Counts {
		if c <= left && !math.IsInf(p.Values[i][k], -1) {
			best = max(best, p.Values[i][k]+bestStep(p, i+1, left-c))
		}
	}
	return best
}

// TestOneStepAgainstAllCounts compares both ways with the true optimum of
// problems small enough to try everything, some of their counts forbidden.
func TestOneStepAgainstAllCounts(t *testing.T) {
	var s solve.OneStepSolver
	proved, feasible := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 12))
		counts := [][]int{{1, 2, 4}, {0, 1, 3}, {0, 2, 8, 9}, {2, 3, 4, 5}, {7}}[seed%5]
		jobs := 1 + r.IntN(5)
		p := randomStep(seed, jobs, counts[len(counts)-1]*jobs, counts, seed%3 > 0)
		for i := range p.Values {
			if k := r.IntN(2 * len(counts)); k < len(counts)-1 {
				p.Values[i][k] = math.Inf(-1)
			}
		}
		p.Devices = r.IntN(p.Devices + 2)
		want := bestStep(p, 0, p.Devices)
		exactly, err := s.Exact(p)
		if math.IsInf(want, -1) {
			if err == nil || !strings.Contains(err.Error(), "at least") {
				t.Fatalf("seed %d: infeasible, but %+v, %v", seed, exactly, err)
			}
			continue
		}
		if err != nil || math.Abs(exactly.Value-want) > 1e-9 || !exactly.Proved || exactly.Bound < want {
			t.Fatalf("seed %d: exact %+v, %v, want %v", seed, exactly, err, want)
		}
		feasible++
		h, err := s.Hull(p)
		if err != nil || h.Bound < want || h.Value > want+1e-9 || h.Proved && h.Value < want-1e-9 {
			t.Fatalf("seed %d: hull %+v, %v, want %v", seed, h, err, want)
		}
		if h.Proved {
			proved++
		}
	}
	if proved < feasible*99/100 || feasible < 1000 {
		t.Errorf("the hull proved %d of %d", proved, feasible)
	}
}

// TestOneStepOfUsualSizes holds Hull to the dynamic programme's value.
func TestOneStepOfUsualSizes(t *testing.T) {
	var s solve.OneStepSolver
	proved := 0
	for seed := range uint64(20) {
		for _, rough := range []bool{false, true} {
			for _, counts := range [][]int{upTo(10), {1, 2, 4, 8, 16}, {0, 1, 2, 4, 8, 16, 32, 64}} {
				p := randomStep(seed, 100, 400, counts, rough)
				exactly, err := s.Exact(p)
				if err != nil {
					t.Fatal(err)
				}
				want := exactly.Value
				h, err := s.Hull(p)
				if err != nil || h.Value > want+1e-9 || h.Bound < want || h.Value < want*(1-2e-4) {
					t.Fatalf("seed %d, %v: %+v, %v, want %v", seed, counts, h, err, want)
				}
				if h.Proved {
					proved++
					if h.Value < want-1e-7 {
						t.Errorf("seed %d, %v: proved %v, but %v can be had", seed, counts, h.Value, want)
					}
				}
			}
		}
	}
	t.Logf("proved %d of 120", proved)
	if proved < 114 {
		t.Errorf("proved %d of 120", proved)
	}
}

func TestOneStepAgainAllocatesNothing(t *testing.T) {
	p := randomStep(1, 100, 400, upTo(10), true)
	var s solve.OneStepSolver
	for _, solve := range []func(*solve.OneStep) (solve.OneStepResult, error){s.Hull, s.Exact} {
		if _, err := solve(p); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(8, func() { _, _ = solve(p) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func TestBadOneSteps(t *testing.T) {
	inf := math.Inf(1)
	for want, p := range map[string]*solve.OneStep{
		"-1 devices":           {Devices: -1, Counts: []int{1}},
		"0 counts":             {},
		"use ascending":        {Counts: []int{2, 1}},
		"255 counts":           {Counts: upTo(255)},
		"job 0: 1 values":      {Counts: []int{0, 1}, Values: [][]float64{{1}}},
		"job 1: NaN for 0":     {Counts: []int{0}, Values: [][]float64{{1}, {math.NaN()}}},
		"job 0: +Inf for 0":    {Counts: []int{0}, Values: [][]float64{{inf}}},
		"it may have none":     {Counts: []int{0}, Values: [][]float64{{-inf}}},
		"1 devices: the jobs ": {Devices: 1, Counts: []int{0, 2}, Values: [][]float64{{-inf, 1}}},
	} {
		var s solve.OneStepSolver
		if _, err := s.Solve(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	p := &solve.OneStep{Devices: 1 << 30, Counts: []int{0, 1 << 30}, Values: [][]float64{{0, 1}}}
	var s solve.OneStepSolver
	if _, err := s.Exact(p); err == nil || !strings.Contains(err.Error(), "use Hull") {
		t.Error(err)
	}
	if r, err := s.Solve(p); err != nil || r.Value != 1 || !r.Proved {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.Solve(&solve.OneStep{Devices: 3, Counts: []int{1}}); err != nil || r.Value != 0 || !r.Proved || len(r.Counts) != 0 {
		t.Errorf("no jobs: %+v, %v", r, err)
	}
	p = &solve.OneStep{Devices: 3, Counts: []int{1, 2}, Values: [][]float64{{1, 2}, {-inf, 5}}}
	for want, counts := range map[string][]int{"1 counts for 2": {1}, "job 0: 3 devices": {3, 2}, "job 1: 1 devices": {1, 1}, "4 devices of 3": {2, 2}} {
		if v, err := solve.EvalOneStep(p, counts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v", counts, v, err)
		}
	}
}

func BenchmarkOneStep(b *testing.B) {
	for _, c := range []struct {
		jobs, devices int
		name          string
		counts        []int
	}{
		{200, 400, "1..10", upTo(10)},
		{100, 400, "pow2<=16", []int{1, 2, 4, 8, 16}},
		{4000, 10000, "1..10", upTo(10)},
		{4000, 10000, "1..64", upTo(64)},
		{4000, 10000, "pow2<=64", []int{1, 2, 4, 8, 16, 32, 64}},
	} {
		for _, rough := range []bool{false, true} {
			p := randomStep(1, c.jobs, c.devices, c.counts, rough)
			var s solve.OneStepSolver
			for way, solve := range map[string]func(*solve.OneStep) (solve.OneStepResult, error){"exact": s.Exact, "hull": s.Hull} {
				b.Run(fmt.Sprintf("jobs=%d/devices=%d/counts=%s/rough=%v/%s", c.jobs, c.devices, c.name, rough, way), func(b *testing.B) {
					b.ReportAllocs()
					value, bound := 0.0, 0.0
					for b.Loop() {
						r, err := solve(p)
						if err != nil {
							b.Fatal(err)
						}
						value, bound = r.Value, r.Bound
					}
					b.ReportMetric(value, "value")
					b.ReportMetric(100*(bound-value)/value, "gap-%")
				})
			}
		}
	}
}
