package milp

import (
	"fmt"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// Formulation is a way to write a rolling-horizon problem as a Model. Both have
// the same optimum.
type Formulation string

// The formulations.
const (
	// Paper is the model of Hu et al., section 4.4, as printed: an integer
	// number of devices a job and step, and for each count two binary variables
	// that say whether the number is at most and at least that count (equations
	// 16 to 18), tied to it by a big M, and the work done by the count chosen
	// (19 and 20). M is the largest count, the smallest that is sound and the
	// kindest to a solver.
	Paper Formulation = "paper"
	// Tight has one binary variable for each job, step and count, of which
	// exactly one is 1. Solvers are about ten times as fast with it.
	Tight Formulation = "tight"
)

// maxColumns bounds a model: a few GB of memory in any solver, and far more
// than one that is solved in an hour.
const maxColumns = 2_000_000

// Statement is a problem written as a Model. It knows where in the model's
// values the plan is.
type Statement struct {
	Model *Model
	p     *solve.Problem
	f     Formulation
	caps  []int // by step: its row of devices
	plan  []int // by job and step: the column of n (Paper), or of the least count (Tight)
}

// State writes a problem as a model. Work is measured in what one device does
// in one step, whatever the problem's units, so that coefficients are speeds.
// The objective is the value that solve.Eval has, in the paper's formulation but for a constant.
func State(p *solve.Problem, f Formulation) (*Statement, error) {
	if f != Paper && f != Tight {
		return nil, fmt.Errorf("state the problem: there is no formulation %q: use %s or %s", f, Paper, Tight)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("state the problem of %d jobs: %w", len(p.Jobs), err)
	}
	if n := len(p.Jobs) * p.Steps * (2 + 2*len(p.Counts)); n > maxColumns {
		return nil, fmt.Errorf("state the problem of %d jobs: up to %d variables, more than %d: take fewer jobs or steps", len(p.Jobs), n, maxColumns)
	}
	s := &Statement{Model: &Model{Name: string(f)}, p: p, f: f}
	for t := range p.Steps {
		s.caps = append(s.caps, s.row(Row{Name: fmt.Sprintf("cap_%d", t+1), Limit: float64(p.Devices)}))
	}
	for i := range p.Jobs {
		before := -1
		for t := range p.Steps {
			before = s.step(i, t, before)
		}
	}
	return s, nil
}

func (s *Statement) row(r Row) int {
	s.Model.Rows = append(s.Model.Rows, r)
	return len(s.Model.Rows) - 1
}

func (s *Statement) column(c Column) int {
	s.Model.Columns = append(s.Model.Columns, c)
	return len(s.Model.Columns) - 1
}

// devices counts n of column c against the devices of step t.
func (s *Statement) devices(t, c int, n float64) {
	r := &s.Model.Rows[s.caps[t]]
	r.Terms = append(r.Terms, Term{c, n})
}

// step states one job's step: served demand s, which is at most that of the
// step before and what the step's devices do. It returns the column of s.
func (s *Statement) step(i, t, before int) int {
	j := &s.p.Jobs[i]
	work := j.Work / s.p.Step
	at := fmt.Sprintf("_%d_%d", i, t+1)
	served := s.column(Column{Name: "s" + at, Objective: 1 / work, Upper: work})
	supply := Row{Name: "srv" + at, Terms: []Term{{served, 1}}}
	if before >= 0 {
		supply.Terms = append(supply.Terms, Term{before, -1})
	}
	if s.f == Paper {
		s.number(i, t, &supply)
	} else {
		s.choice(i, t, &supply)
	}
	s.row(supply)
	return served
}

// choice states the count by one binary variable for each.
func (s *Statement) choice(i, t int, supply *Row) {
	j := &s.p.Jobs[i]
	s.plan = append(s.plan, len(s.Model.Columns))
	one := Row{Name: fmt.Sprintf("one_%d_%d", i, t+1), Sense: Exactly, Limit: 1}
	for k, count := range s.p.Counts {
		if count < j.Min || count > j.Max {
			continue
		}
		x := s.column(Column{Name: fmt.Sprintf("x_%d_%d_%d", i, count, t+1), Objective: bonus(j, t, count), Upper: 1, Integer: true})
		one.Terms = append(one.Terms, Term{x, 1})
		s.devices(t, x, float64(count))
		supply.Terms = append(supply.Terms, Term{x, -j.Speeds[k]})
	}
	s.row(one)
}

// number states the count as a whole number n and, for each k, whether n ≤ k
// (dm) and whether n ≥ k (dp): both for exactly one k, one of them for all others.
func (s *Statement) number(i, t int, supply *Row) {
	j := &s.p.Jobs[i]
	n := s.column(Column{Name: fmt.Sprintf("n_%d_%d", i, t+1), Lower: float64(j.Min), Upper: float64(j.Max), Integer: true})
	s.plan = append(s.plan, n)
	s.devices(t, n, 1)
	m := max(1, float64(s.p.Counts[len(s.p.Counts)-1]))
	one := Row{Name: fmt.Sprintf("cnt_%d_%d", i, t+1), Sense: Exactly, Limit: float64(len(s.p.Counts) + 1)}
	for q, count := range s.p.Counts {
		at, k := fmt.Sprintf("_%d_%d_%d", i, count, t+1), float64(count)
		below := s.column(Column{Name: "dm" + at, Objective: bonus(j, t, count), Upper: 1, Integer: true})
		above := s.column(Column{Name: "dp" + at, Objective: bonus(j, t, count), Upper: 1, Integer: true})
		one.Terms = append(one.Terms, Term{below, 1}, Term{above, 1})
		supply.Terms = append(supply.Terms, Term{below, -j.Speeds[q]}, Term{above, -j.Speeds[q]})
		supply.Limit -= j.Speeds[q]
		s.row(Row{Name: "a" + at, Limit: m + k, Terms: []Term{{n, 1}, {below, m}}})
		s.row(Row{Name: "b" + at, Sense: AtLeast, Limit: k + 1/m, Terms: []Term{{n, 1}, {below, m + 1/m}}})
		s.row(Row{Name: "c" + at, Limit: m - k, Terms: []Term{{n, -1}, {above, m}}})
		s.row(Row{Name: "d" + at, Sense: AtLeast, Limit: 1/m - k, Terms: []Term{{n, -1}, {above, m + 1/m}}})
	}
	s.row(one)
}

// bonus is what a count in step t is worth to a job besides the work done.
func bonus(j *solve.Job, t, count int) float64 {
	if t == 0 && count == j.Present {
		return j.Bonus
	}
	return 0
}

// Plan reads the counts out of a solver's values, one for each column. It does
// not check them; values that say no count are an error.
func (s *Statement) Plan(values []float64) (solve.Plan, error) {
	if len(values) != len(s.Model.Columns) {
		return nil, fmt.Errorf("read the plan: %d values for %d variables", len(values), len(s.Model.Columns))
	}
	plan := make(solve.Plan, 0, len(s.plan))
	for n, c := range s.plan {
		if s.f == Paper {
			plan = append(plan, int(math.Round(values[c])))
			continue
		}
		count := -1
		j := &s.p.Jobs[n/s.p.Steps]
		for k := slices.Index(s.p.Counts, j.Min); k < len(s.p.Counts) && s.p.Counts[k] <= j.Max; k++ {
			if values[c] > 0.5 {
				count = s.p.Counts[k]
			}
			c++
		}
		if count < 0 {
			return nil, fmt.Errorf("read the plan: job %d has no count in step %d", n/s.p.Steps, n%s.p.Steps)
		}
		plan = append(plan, count)
	}
	return plan, nil
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
