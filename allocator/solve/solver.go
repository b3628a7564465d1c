package solve

import (
	"fmt"
	"math"
)

// Solver solves problems, one after the other, and keeps its memory in between:
// a problem no larger than an earlier one is solved without allocating in the
// loops. The zero value is ready; it is not safe for concurrent use.
type Solver struct {
	dual
	table      table
	decoupled  decoupled
	core       core
	labels     labels
	unfinished []bool            // by job: endless, or finished by no good plan
	incumbent  [][maxSteps]uint8 // by job: its plan in the best solution so far
	gap        float64           // between the incumbent and the bound
	answer     Plan
	single     single
}

func (s *Solver) prepare(p *Problem) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("solve allocation of %d jobs on %d devices: %w", len(p.Jobs), p.Devices, err)
	}
	s.dual.prepare(p)
	s.unfinished = resize(s.unfinished, len(p.Jobs))
	return nil
}

// Constants of the two searches for a plan: a narrow one first, which mostly
// finds the best plan, and then a wide one, which tries all that could still be
// better and so proves it.
const (
	firstLimit        = 0.5 // of the mean price: the first search omits plans that lose more
	firstAlternatives = 32  // plans a job
	firstLabels       = 24
	wideAlternatives  = 200 // plans a job; at most 256
)

// astray is the gap, relative to the value, from which a search that began with
// earlier prices is made again from nothing.
const astray = 1e-3

// Solve finds a plan for p.
func (s *Solver) Solve(p *Problem, o Options) (Result, error) {
	r, err := s.solve(p, o)
	if err == nil && len(o.Prices) > 0 && r.Bound-r.Value > astray*math.Abs(r.Value) {
		before := r.Effort
		o.Prices = nil
		r, err = s.solve(p, o)
		r.Effort.Evaluations += before.Evaluations
		r.Effort.Labels += before.Labels
	}
	return r, err
}

func (s *Solver) solve(p *Problem, o Options) (Result, error) {
	if err := s.prepare(p); err != nil {
		return Result{}, err
	}
	if p.Steps == 1 {
		return s.solveSingle()
	}
	s.seekPrices(o.Prices)
	mean := 0.0
	for t := range p.Steps {
		mean += s.lambda[t] / float64(p.Steps)
	}
	s.gap = math.Inf(1)
	if mean == 0 { // there are enough devices for all jobs
		s.evaluateAgain()
		s.adopt()
		if math.IsInf(s.gap, 1) {
			s.repair()
		}
		return s.result(0)
	}
	budget := o.Labels
	if budget == 0 {
		budget = DefaultLabels
	}
	cut := s.improve(firstLimit*mean, firstAlternatives, min(budget, firstLabels))
	if s.gap >= forbidden {
		s.repair()
	}
	if cut < s.gap && budget > firstLabels {
		cut = s.improve(s.gap, wideAlternatives, budget)
	}
	return s.result(cut)
}

// improve looks for a plan with a smaller gap to the bound among those in which
// no job loses limit or more. It returns the smallest gap that any plan can have:
// of those that it has omitted, and of the best that it has tried.
func (s *Solver) improve(limit float64, most, budget int) (cut float64) {
	s.evaluateAgain()
	cut = s.core.gather(s, limit, most)
	cut = min(cut, s.decoupled.fill(s))
	lowest, dropped := s.labels.search(s, &s.core, s.gap, budget)
	if lowest < s.gap {
		s.core.assign(s)
		s.adopt()
	}
	return min(cut, dropped, lowest)
}

// evaluateAgain finds every job's best plan at the best prices.
func (s *Solver) evaluateAgain() {
	lambda := s.lambda
	s.evaluate(&lambda)
}

// adopt keeps the plans in best if they are feasible and better than the incumbent.
func (s *Solver) adopt() {
	for _, n := range s.spare() {
		if n < 0 {
			return
		}
	}
	if gap := s.bound - s.value(); gap < s.gap {
		s.gap = gap
		s.incumbent = append(s.incumbent[:0], s.best...)
	}
}

// value is that of the plans in best, with bonuses.
func (s *Solver) value() float64 {
	total := 0.0
	for i := range s.jobs {
		j := &s.jobs[i]
		sum := 0.0
		for t := range s.p.Steps {
			k := int(s.best[i][t])
			sum += j.speeds[k]
			total += j.fraction(sum)
			if t == 0 && k == j.present {
				total += j.bonus
			}
		}
	}
	return total
}

// repair makes a plan where the search has found none: all jobs have their least
// number, and then each in turn its best plan with the remaining devices.
func (s *Solver) repair() {
	for i := range s.best {
		s.best[i] = [maxSteps]uint8{}
	}
	room := s.spare()
	for i := range s.jobs {
		j := &s.jobs[i]
		own := room
		for t := range own {
			own[t] += s.p.Counts[j.low]
		}
		s.prices.set(&s.lambda, s.p.Counts)
		s.prices.cap(&own, s.p.Counts)
		s.table.best(j, &s.prices, &s.best[i])
		for t := range s.p.Steps {
			room[t] = own[t] - s.p.Counts[j.low+int(s.best[i][t])]
		}
	}
	s.adopt()
}

// exact is how far a sum of all values may be off, relative to it.
const exact = 1e-10

func (s *Solver) result(cut float64) (Result, error) {
	s.answer = resize(s.answer, len(s.jobs)*s.p.Steps)
	for i := range s.jobs {
		for t := range s.p.Steps {
			s.answer[i*s.p.Steps+t] = s.p.Counts[s.jobs[i].low+int(s.incumbent[i][t])]
		}
	}
	value, err := Eval(s.p, s.answer)
	if err != nil {
		return Result{}, fmt.Errorf("check the plan found: %w", err)
	}
	slack := exact * math.Abs(s.bound)
	return Result{
		Plan: s.answer, Value: value, Bound: max(value, s.bound-min(cut, s.gap)+slack),
		Proved: cut >= s.gap-slack, Prices: s.lambda[:s.p.Steps], Effort: s.effort,
	}, nil
}
