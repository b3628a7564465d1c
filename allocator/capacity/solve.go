package capacity

import (
	"fmt"
	"math"
	"slices"
)

// Result is a plan, what it costs, and what every plan costs at least.
type Result struct {
	Plan  Plan
	Cost  float64
	Bound float64
}

// Gap is how far the plan may be from the best, relative to the bound.
func (r Result) Gap() float64 {
	if r.Cost <= r.Bound {
		return 0
	}
	return (r.Cost - r.Bound) / math.Max(math.Abs(r.Bound), math.SmallestNonzeroFloat64)
}

// Solve finds a plan. The same problem gives the same plan.
func Solve(p *Problem) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, fmt.Errorf("plan capacity: %w", err)
	}
	m := newMarket(p)
	device, bound := m.solve()
	m.bound(device) // its choices
	net := make([]float64, len(device))
	for v := range net {
		net[v] = device[v] - p.Types[v].Idle
	}
	used := slices.Clone(m.used)
	best := newFill(m, net, bound)
	waiting := make([]int32, len(m.best))
	for i := range waiting {
		waiting[i] = int32(m.from[i])
	}
	best.pack(waiting)
	c := newCore(m, net)
	c.search()
	c.plans(used, func(chosen []int32) bool {
		f := newFill(m, net, bound)
		f.pack(chosen)
		if f.cost < best.cost {
			best = f
		}
		return !best.done()
	})
	best.improve()
	if now := newFill(m, net, bound); now.load(p.Present) {
		now.improve()
		if now.cost <= best.cost+gain {
			best = now
		}
	}
	for n := range best.nodes {
		slices.SortFunc(best.nodes[n].Shares, func(a, b Share) int { return a.Job - b.Job })
	}
	cost, err := Eval(p, best.nodes)
	if err != nil {
		return Result{}, fmt.Errorf("plan capacity: %w", err)
	}
	if m.k <= 1 { // filling the one node is exact
		bound = cost
	}
	return Result{Plan: best.nodes, Cost: cost, Bound: min(bound, cost)}, nil
}
