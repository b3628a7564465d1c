package solve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// random makes a problem like the paper's: work around that of one and a half
// devices for an hour, steps of five minutes. Rough curves are not concave.
func random(seed uint64, jobs, devices, steps int, counts []int) *solve.Problem {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &solve.Problem{Devices: devices, Steps: steps, Step: 5.0 / 60, Counts: counts}
	rough := r.IntN(2) == 0
	for i := range jobs {
		j := solve.Job{Work: math.Max(1.0/120, 1.5*math.Exp(1.5*r.NormFloat64())), Min: counts[0], Max: counts[len(counts)-1], Present: -1}
		for k, c := range counts {
			v := 0.0
			if c > 0 {
				v = float64(c) * math.Pow(0.8, math.Log2(float64(c)))
			}
			if rough && k > 0 && c > 1 {
				v = math.Max(j.Speeds[k-1], v*(1+0.2*r.NormFloat64()))
			}
			j.Speeds = append(j.Speeds, v)
		}
		if r.IntN(5) == 0 {
			j.Max = counts[r.IntN(len(counts))]
		}
		if i%3 == 0 { // it runs, and a change would cost it something
			j.Present, j.Bonus = counts[int(seed)%len(counts)], float64(i%7)/20
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// optimum is the best value there is, by looking at all plans.
func optimum(p *solve.Problem) float64 {
	type option struct {
		plan  []int
		value float64
	}
	var options [][]option
	for _, j := range p.Jobs {
		one := *p
		one.Jobs = []solve.Job{j}
		one.Devices = math.MaxInt
		var mine []option
		plan := make(solve.Plan, p.Steps)
		var fill func(t int)
		fill = func(t int) {
			if t == p.Steps {
				v, err := solve.Eval(&one, plan)
				if err == nil {
					mine = append(mine, option{slices.Clone(plan), v})
				}
				return
			}
			for _, c := range p.Counts {
				plan[t] = c
				fill(t + 1)
			}
		}
		fill(0)
		options = append(options, mine)
	}
	best := math.Inf(-1)
	used := make([]int, p.Steps)
	var choose func(i int, value float64)
	choose = func(i int, value float64) {
		if i == len(options) {
			best = max(best, value)
			return
		}
	next:
		for _, o := range options[i] {
			for t, c := range o.plan {
				if used[t]+c > p.Devices {
					continue next
				}
			}
			for t, c := range o.plan {
				used[t] += c
			}
			choose(i+1, value+o.value)
			for t, c := range o.plan {
				used[t] -= c
			}
		}
	}
	choose(0, 0)
	return best
}

// TestAgainstAllPlans compares with the true optimum of problems small enough to try everything.
func TestAgainstAllPlans(t *testing.T) {
	proved, exact := 0, 0
	const seeds = 400
	var s solve.Solver
	for seed := range uint64(seeds) {
		counts := [][]int{{1, 2, 4}, {0, 1, 2, 4}, {0, 2, 8}, {1, 4}}[seed%4]
		p := random(seed, 3, 3+int(seed)%11+8*min(1, counts[0]*int(seed%4)), 2+int(seed)%2, counts)
		r, err := s.Solve(p, solve.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		best := optimum(p)
		value, err := solve.Eval(p, r.Plan)
		switch {
		case err != nil || value != r.Value:
			t.Fatalf("seed %d: the plan is worth %v (%v), not %v", seed, value, err, r.Value)
		case r.Value > best+1e-9:
			t.Fatalf("seed %d: %v is better than the optimum %v", seed, r.Value, best)
		case r.Bound < best-1e-9:
			t.Fatalf("seed %d: the bound %v is below the optimum %v", seed, r.Bound, best)
		case r.Proved && r.Value < best-1e-8:
			t.Fatalf("seed %d: %v was proved, but %v can be had", seed, r.Value, best)
		}
		if r.Proved {
			proved++
		}
		if r.Value > best-1e-9 {
			exact++
		}
	}
	t.Logf("of %d: %d optimal, %d proved", seeds, exact, proved)
	if exact < seeds*95/100 || proved < seeds*90/100 {
		t.Errorf("of %d problems only %d were solved to the optimum, and %d proved", seeds, exact, proved)
	}
}

// TestUsualProblems holds the gap and the share of proofs on problems of the sizes that clusters have.
func TestUsualProblems(t *testing.T) {
	gap, proved, n := 0.0, 0, 0
	for seed := range uint64(40) {
		for _, size := range []struct {
			jobs, devices int
			counts        []int
		}{{35, 70, []int{1, 2, 4, 8, 16}}, {60, 110, []int{1, 2, 4, 8, 16}}, {80, 60, []int{0, 1, 2, 4, 8, 16}}, {20, 200, []int{1, 2, 4, 8, 16}}, {12, 500, []int{1, 2, 4, 8, 16}}} {
			var s solve.Solver
			p := random(seed, size.jobs, size.devices, 5, size.counts)
			r, err := s.Solve(p, solve.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if v, err := solve.Eval(p, r.Plan); err != nil || v != r.Value || r.Bound < r.Value {
				t.Fatalf("seed %d: value %v, evaluated %v, bound %v, %v", seed, r.Value, v, r.Bound, err)
			}
			gap += (r.Bound - r.Value) / r.Value / 200
			n++
			if r.Proved {
				proved++
			}
		}
	}
	t.Logf("of %d: %d proved, mean gap %.5f %%", n, proved, 100*gap)
	if gap > 0.0001 || proved < n*8/10 {
		t.Errorf("of %d problems %d were proved, with a mean gap of %.4f %%", n, proved, 100*gap)
	}
}

// TestSameBits compares a solver that is used again with a fresh one.
func TestSameBits(t *testing.T) {
	var used solve.Solver
	for seed := range uint64(6) {
		p := random(seed, 300+100*int(seed%3), 700, 5, []int{0, 1, 2, 4, 8, 16})
		var fresh solve.Solver
		a, err := fresh.Solve(p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := used.Solve(p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a.Value != b.Value || a.Bound != b.Bound || !slices.Equal(a.Plan, b.Plan) || !slices.Equal(a.Prices, b.Prices) {
			t.Fatalf("seed %d: %v of %v by a fresh solver, %v of %v by a used one", seed, a.Value, a.Bound, b.Value, b.Bound)
		}
	}
}

// TestWarmStart checks that old prices save evaluations and cost nothing that a bound must hold.
func TestWarmStart(t *testing.T) {
	p := random(3, 100, 190, 5, []int{1, 2, 4, 8, 16})
	var s solve.Solver
	cold, err := s.Solve(p, solve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	value, effort := cold.Value, cold.Effort.Evaluations
	warm, err := s.Solve(p, solve.Options{Prices: slices.Clone(cold.Prices)})
	if err != nil {
		t.Fatal(err)
	}
	if warm.Bound < value-1e-9 || warm.Effort.Evaluations >= effort {
		t.Errorf("cold %v in %d evaluations, warm bound %v in %d", value, effort, warm.Bound, warm.Effort.Evaluations)
	}
}

// TestBonusDecidesTies gives two equal jobs three devices: who has two keeps them.
func TestBonusDecidesTies(t *testing.T) {
	for first := range 2 {
		p := &solve.Problem{Devices: 3, Steps: 1, Step: 1, Counts: []int{1, 2}}
		for i := range 2 {
			j := solve.Job{Work: 100, Min: 1, Max: 2, Speeds: []float64{1, 1.6}, Present: 1, Bonus: 1e-6}
			if i == first {
				j.Present = 2
			}
			p.Jobs = append(p.Jobs, j)
		}
		var s solve.Solver
		r, err := s.Solve(p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Plan[first] != 2 || r.Plan[1-first] != 1 || math.Abs(r.Value-0.026-2e-6) > 1e-12 || r.Bound < r.Value {
			t.Errorf("job %d had 2: %+v", first, r)
		}
	}
}

func TestEdges(t *testing.T) {
	var s solve.Solver
	one := solve.Job{Work: 1, Min: 1, Max: 2, Speeds: []float64{1, 1.6}, Present: -1}
	for _, c := range []struct {
		name string
		p    solve.Problem
		want solve.Plan
	}{
		{"no jobs", solve.Problem{Devices: 4, Steps: 2, Step: 1, Counts: []int{1, 2}}, solve.Plan{}},
		{"no choice", solve.Problem{Devices: 1, Steps: 2, Step: .1, Counts: []int{1, 2}, Jobs: []solve.Job{one}}, solve.Plan{1, 1}},
		{"plenty", solve.Problem{Devices: 9, Steps: 2, Step: .1, Counts: []int{1, 2}, Jobs: []solve.Job{one}}, solve.Plan{2, 2}},
		{"one is as good", solve.Problem{Devices: 9, Steps: 2, Step: 1, Counts: []int{1, 2}, Jobs: []solve.Job{one}}, solve.Plan{1, 1}},
	} {
		r, err := s.Solve(&c.p, solve.Options{})
		if err != nil || !slices.Equal(r.Plan, c.want) || !r.Proved {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// Far more jobs compete than there are devices. They are alike, so that all want
// devices at one price and none at a slightly higher one: the best plans together
// need more devices than the tables hold.
func TestMoreJobsThanDevices(t *testing.T) {
	for seed := range uint64(100) {
		p := random(seed, 200+int(seed)*5, 4, 1+int(seed)%4, []int{0, 1, 2, 4})
		for i := range p.Jobs {
			p.Jobs[i] = p.Jobs[i%(1+int(seed)%5)]
		}
		var s solve.Solver
		r, err := s.Solve(p, solve.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, err := solve.Eval(p, r.Plan); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func TestBadProblems(t *testing.T) {
	for want, change := range map[string]func(p *solve.Problem){
		"steps 9":               func(p *solve.Problem) { p.Steps = 9 },
		"step NaN":              func(p *solve.Problem) { p.Step = math.NaN() },
		"0 counts":              func(p *solve.Problem) { p.Counts = nil },
		"use ascending numbers": func(p *solve.Problem) { p.Counts = []int{2, 1} },
		"states a job": func(p *solve.Problem) {
			p.Steps = 8
			p.Counts = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		},
		"1 devices: the jobs need 2":        func(p *solve.Problem) { p.Devices = 1 },
		"job 1: work 0":                     func(p *solve.Problem) { p.Jobs[1].Work = 0 },
		"job 0: min 3, max 2: use two of":   func(p *solve.Problem) { p.Jobs[0].Min = 3 },
		"job 0: 1 speeds":                   func(p *solve.Problem) { p.Jobs[0].Speeds = []float64{1} },
		"that do not fall":                  func(p *solve.Problem) { p.Jobs[0].Speeds = []float64{2, 1} },
		"job 1: bonus -1":                   func(p *solve.Problem) { p.Jobs[1].Bonus = -1 },
		"solve allocation of 2 jobs on 4 d": func(p *solve.Problem) { p.Step = 0 },
	} {
		p := &solve.Problem{Devices: 4, Steps: 2, Step: 1, Counts: []int{1, 2}}
		for range 2 {
			p.Jobs = append(p.Jobs, solve.Job{Work: 1, Min: 1, Max: 2, Speeds: []float64{1, 1.6}})
		}
		change(p)
		var s solve.Solver
		if _, err := s.Solve(p, solve.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

func TestEvalRefuses(t *testing.T) {
	p := &solve.Problem{Devices: 2, Steps: 1, Step: 1, Counts: []int{1, 2}, Jobs: []solve.Job{
		{Work: 4, Min: 1, Max: 1, Speeds: []float64{1, 1.6}}, {Work: 4, Min: 1, Max: 2, Speeds: []float64{1, 1.6}},
	}}
	for want, plan := range map[string]solve.Plan{
		"plan of 1 counts":                    {1},
		"job 0, step 0: 2 devices":            {2, 1},
		"job 1, step 0: 3 devices":            {1, 3},
		"step 0: 3 devices of 2":              {1, 2},
		"job 0, step 0: 0 devices are not am": {0, 1},
	} {
		if v, err := solve.Eval(p, plan); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, %v, want …%s…", plan, v, err, want)
		}
	}
	if v, err := solve.Eval(p, solve.Plan{1, 1}); err != nil || v != 0.5 {
		t.Errorf("got %v, %v", v, err)
	}
}

func sizeName(size [2]int) string { return fmt.Sprintf("jobs=%d/devices=%d", size[0], size[1]) }

func BenchmarkSolve(b *testing.B) {
	for _, size := range [][2]int{{60, 110}, {150, 190}, {1000, 1200}} {
		b.Run(sizeName(size), func(b *testing.B) {
			p := random(2, size[0], size[1], 5, []int{1, 2, 4, 8, 16})
			var s solve.Solver
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Solve(p, solve.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
