package solve_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// later is the problem of the next interval: the first step of the plan has
// been worked, and in place of what has finished there are new jobs.
func later(p *solve.Problem, plan solve.Plan, fresh *solve.Problem) *solve.Problem {
	next := *p
	next.Jobs = slices.Clone(p.Jobs)
	for i := range next.Jobs {
		j := &next.Jobs[i]
		n := plan[i*p.Steps]
		j.Work -= p.Step * j.Speeds[slices.Index(p.Counts, n)]
		if j.Work < 1e-9 {
			next.Jobs[i] = fresh.Jobs[i]
		}
	}
	return &next
}

// BenchmarkWarmStart solves interval after interval, from nothing and from the
// prices of the interval before.
func BenchmarkWarmStart(b *testing.B) {
	for _, size := range [][2]int{{100, 190}, {1000, 1200}, {10000, 16384}} {
		for _, warm := range []bool{false, true} {
			name := map[bool]string{false: "cold", true: "warm"}[warm]
			b.Run(sizeName(size)+"/"+name, func(b *testing.B) {
				p := random(2, size[0], size[1], 5, []int{1, 2, 4, 8, 16})
				var s solve.Solver
				var o solve.Options
				gap, evaluations, seed := 0.0, 0, uint64(100)
				for b.Loop() {
					r, err := s.Solve(p, o)
					if err != nil {
						b.Fatal(err)
					}
					gap += 100 * (r.Bound - r.Value) / r.Value
					evaluations += r.Effort.Evaluations
					if warm {
						o.Prices = append(o.Prices[:0], r.Prices...)
					}
					b.StopTimer()
					seed++
					p = later(p, r.Plan, random(seed, size[0], size[1], 5, p.Counts))
					b.StartTimer()
				}
				b.ReportMetric(gap/float64(b.N), "gap-%")
				b.ReportMetric(float64(evaluations)/float64(b.N), "evaluations")
			})
		}
	}
}
