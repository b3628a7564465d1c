package milp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/allocator/capacity"
	"github.com/bellows-ml/bellows/lab/milp"
)

// smallCapacity draws a problem that solvers end: with and without limits of types, with
// nodes that must run and that need not, with sizes at which a job cannot run.
func smallCapacity(seed uint64) *capacity.Problem {
	r := rand.New(rand.NewPCG(seed, 3))
	p := &capacity.Problem{Nodes: 1 + int(seed%3), Full: seed%2 == 0}
	prices := []float64{}
	for _, devices := range []int{1, 2, 4, 4} {
		most := 0
		if seed%4 > 1 {
			most = 1 + r.IntN(2)
		}
		p.Types = append(p.Types, capacity.Type{Devices: devices, Most: most, Idle: r.Float64()})
		prices = append(prices, float64(devices)*(0.2+r.Float64()))
	}
	for range 3 + r.IntN(4) {
		t := capacity.Terms{Prices: prices, Horizon: 1, Weight: 0.3 + r.Float64(), Deadline: 10 * r.Float64(), Repaid: seed%5 == 0}
		t.Postponed = 10 * t.Weight
		base := 6 * math.Exp(r.NormFloat64())
		for v := range p.Types {
			speed := 0.3 + r.Float64()
			var times []float64
			for g := 1; g <= p.Types[v].Devices; g++ {
				times = append(times, base/speed/math.Pow(float64(g), 0.7))
				if r.IntN(6) == 0 {
					times[g-1] = math.Inf(1)
				}
			}
			t.Times = append(t.Times, times)
		}
		p.Jobs = append(p.Jobs, t.Job(p.Types))
	}
	return p
}

// TestCapacityAgreesWithSolvers holds plan and bound of allocator/capacity against the
// optimum that HiGHS and CBC prove.
func TestCapacityAgreesWithSolvers(t *testing.T) {
	solvers, optimal, limited := open(t), 0, 0
	problems := 24
	if testing.Short() {
		problems = 12
	}
	for seed := range uint64(problems) { //nolint:gosec // a few
		p := smallCapacity(seed)
		ours, err := capacity.Solve(p)
		if err != nil {
			t.Fatal(err)
		}
		st, err := milp.StateCapacity(p)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := milp.ReferCapacity(t.Context(), solvers[seed%2], st, patience)
		if err != nil || !ref.Optimal {
			t.Fatalf("seed %d: optimal %v, %v", seed, ref.Optimal, err)
		}
		near := 1e-6 * math.Max(1, math.Abs(ref.Cost))
		if ours.Bound > ref.Cost+near || ours.Cost < ref.Cost-near {
			t.Errorf("seed %d: ours %v, bound %v; the optimum is %v", seed, ours.Cost, ours.Bound, ref.Cost)
		}
		if ours.Cost <= ref.Cost+near {
			optimal++
		}
		if p.Types[0].Most > 0 {
			limited++
		}
		t.Logf("seed %2d: %s %.5f in %v; ours %.5f, bound %.5f", seed, solvers[seed%2].Name(), ref.Cost, ref.Took, ours.Cost, ours.Bound)
	}
	if optimal < problems-problems/12 || limited < problems/3 {
		t.Errorf("%d of %d plans are optimal, %d problems have limits", optimal, problems, limited)
	}
}
