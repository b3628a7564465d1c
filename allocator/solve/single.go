package solve

import "math"

// single is a problem of one step as the knapsack that it is.
type single struct {
	p      OneStep
	solver OneStepSolver
	values []float64
}

// solveSingle solves s.p, which looks one step ahead.
func (s *Solver) solveSingle() (Result, error) {
	q, n := &s.single, len(s.p.Counts)
	q.p.Devices, q.p.Counts = s.p.Devices, s.p.Counts
	q.values = resize(q.values, len(s.jobs)*n)
	q.p.Values = resize(q.p.Values, len(s.jobs))
	for i := range s.jobs {
		j, values := &s.jobs[i], q.values[i*n:][:n:n]
		for k := range values {
			values[k] = math.Inf(-1)
		}
		for k, v := range j.speeds {
			values[j.low+k] = j.fraction(v)
			if k == j.present {
				values[j.low+k] += j.bonus
			}
		}
		q.p.Values[i] = values
	}
	r, err := q.solver.Solve(&q.p)
	if err != nil {
		return Result{}, err
	}
	value, err := Eval(s.p, r.Counts)
	if err != nil {
		return Result{}, err
	}
	s.lambda[0] = r.Price
	return Result{Plan: r.Counts, Value: value, Bound: r.Bound, Proved: r.Proved, Prices: s.lambda[:1]}, nil
}
