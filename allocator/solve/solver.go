package solve

import (
	"fmt"
	"math"
	"slices"
)

// Solver solves problems, one after the other, and keeps its memory in between:
// a problem no larger than an earlier one is solved without allocating in the
// loops. The zero value is ready; it is not safe for concurrent use.
type Solver struct {
	p      *Problem
	o      Options
	jobs   []job
	shapes []*shape // by options
	steps  int      // of the shapes
	blocks []block
	sums   []float64 // of all jobs' states
	pass   pass      // that the blocks are in
	each   func(k int)

	blur    float64 // of the model
	prices  prices
	best    [][maxSteps]uint8 // by job: the best plan at the prices last evaluated
	columns columns
	bound   float64 // the lowest so far
	lambda  [maxSteps]float64
	use     [maxSteps]float64
	spread  [maxSteps * maxSteps]float64
	effort  Effort

	table   table
	rest    rest
	core    core
	labels  labels
	loose   []bool            // by job: endless, or as good as that
	keep    [][maxSteps]uint8 // by job: the best plan of all so far
	missing float64           // what it is missing from the bound
	answer  Plan
	single  single
}

func (s *Solver) prepare(p *Problem, o Options) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("solve allocation of %d jobs on %d devices: %w", len(p.Jobs), p.Devices, err)
	}
	s.p, s.o = p, o
	if s.steps != p.Steps {
		s.steps, s.shapes = p.Steps, nil
	}
	n := len(p.Jobs)
	s.jobs = resize(s.jobs, n)
	s.best = resize(s.best, n)
	s.loose = resize(s.loose, n)
	s.columns.count = resize(s.columns.count, n)
	s.columns.value = resize(s.columns.value, n*maxColumns)
	s.columns.use = resize(s.columns.use, n*maxColumns*p.Steps)
	clear(s.columns.count)
	for i := range p.Jobs {
		s.ready(i)
	}
	s.addUp()
	count := (n + blockJobs - 1) / blockJobs
	s.blocks = resize(s.blocks, count)
	for k := range s.blocks {
		s.blocks[k].from, s.blocks[k].to = k*blockJobs, min(n, (k+1)*blockJobs)
	}
	s.prices = prices{steps: p.Steps}
	s.bound, s.effort = math.Inf(1), Effort{}
	return nil
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// ready fills in job i.
func (s *Solver) ready(i int) {
	from, p := &s.p.Jobs[i], s.p
	low, high := p.index(from.Min), p.index(from.Max)
	speeds := from.Speeds[low : high+1]
	j := job{low: low, speeds: speeds, present: -1, bonus: from.Bonus, scale: p.Step / from.Work}
	if at := p.index(from.Present); from.Bonus > 0 && at >= low && at <= high {
		j.present = at - low
	}
	switch {
	case j.scale*speeds[0] >= 1:
		j.kind = settled
	case j.scale*speeds[len(speeds)-1]*float64(p.Steps) <= 1:
		j.kind = endless
	default:
		j.kind = finishing
		j.shape = s.shape(len(speeds))
	}
	s.jobs[i] = j
}

// addUp fills in the sums of the finishing jobs' states. Mostly all jobs have
// the same curve; those of a few jobs before are shared.
func (s *Solver) addUp() {
	const near = 8
	shared, need := func(i int) *job {
		j := &s.jobs[i]
		for back := i - 1; back >= max(0, i-near); back-- {
			if o := &s.jobs[back]; o.kind == finishing && o.low == j.low && slices.Equal(o.speeds, j.speeds) {
				return o
			}
		}
		return nil
	}, 0
	for i := range s.jobs {
		if s.jobs[i].kind == finishing && shared(i) == nil {
			need += s.jobs[i].shape.size()
		}
	}
	s.sums = resize(s.sums, need)
	left := s.sums
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.kind != finishing {
			continue
		}
		if o := shared(i); o != nil {
			j.sums = o.sums
			continue
		}
		n := j.shape.size()
		j.sums, left = left[:n:n], left[n:]
		j.shape.addUp(j.speeds, j.sums)
	}
}

func (s *Solver) shape(options int) *shape {
	for len(s.shapes) <= options {
		s.shapes = append(s.shapes, nil)
	}
	if s.shapes[options] == nil {
		s.shapes[options] = newShape(options, s.steps)
	}
	return s.shapes[options]
}

// pass is what is done to all blocks, perhaps at the same time.
type pass uint8

const (
	planning pass = iota // evaluate: every job's best plan
	blurring             // blurred: the softened model
)

func (s *Solver) inBlocks(what pass) {
	s.pass = what
	if s.o.Parallel == nil || len(s.blocks) == 1 {
		for k := range s.blocks {
			s.inBlock(k)
		}
		return
	}
	if s.each == nil {
		s.each = s.inBlock // once: a method value is allocated each time it is made
	}
	s.o.Parallel(len(s.blocks), s.each)
}

func (s *Solver) inBlock(k int) {
	b := &s.blocks[k]
	switch s.pass {
	case planning:
		s.plan(b)
	case blurring:
		s.blurBlock(b)
	}
}

// Constants of the two searches for a plan: a narrow one first, which mostly
// finds the best plan, and then a wide one, which looks at everything that
// could still be better and so proves it.
const (
	firstLimit        = 0.5 // of the mean price: a plan that loses more is at first not looked at
	firstAlternatives = 32  // plans a job
	firstLabels       = 24
	wideAlternatives  = 200 // plans a job; at most 256
)

// Solve finds a plan for p.
func (s *Solver) Solve(p *Problem, o Options) (Result, error) {
	if err := s.prepare(p, o); err != nil {
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
	s.missing = math.Inf(1)
	if mean == 0 { // nobody needs to do without anything
		s.evaluateAgain()
		s.adopt()
		if math.IsInf(s.missing, 1) {
			s.repair()
		}
		return s.result(0)
	}
	budget := o.Labels
	if budget == 0 {
		budget = DefaultLabels
	}
	cut := s.improve(firstLimit*mean, firstAlternatives, min(budget, firstLabels))
	if s.missing >= forbidden {
		s.repair()
	}
	if cut < s.missing && budget > firstLabels {
		cut = s.improve(s.missing, wideAlternatives, budget)
	}
	return s.result(cut)
}

// improve looks for a plan with less missing from the bound among those in
// which no job loses limit or more. It returns the least that what it has not
// looked at, and the best that it has, is missing.
func (s *Solver) improve(limit float64, most, budget int) (cut float64) {
	s.evaluateAgain()
	cut = s.core.gather(s, limit, most)
	cut = min(cut, s.rest.fill(s))
	lowest, dropped := s.labels.search(s, &s.core, s.missing, budget)
	if lowest < s.missing {
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

// adopt keeps the plans in best if they can be had and are better than those kept.
func (s *Solver) adopt() {
	for _, n := range s.spare() {
		if n < 0 {
			return
		}
	}
	if missing := s.bound - s.worth(); missing < s.missing {
		s.missing = missing
		s.keep = append(s.keep[:0], s.best...)
	}
}

// worth is the value of the plans in best, with bonuses.
func (s *Solver) worth() float64 {
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

// repair makes a plan where the search has found none: everybody has the least
// number, and then each job in turn its best plan with the devices that are left.
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
			s.answer[i*s.p.Steps+t] = s.p.Counts[s.jobs[i].low+int(s.keep[i][t])]
		}
	}
	value, err := Eval(s.p, s.answer)
	if err != nil {
		return Result{}, fmt.Errorf("check the plan found: %w", err)
	}
	slack := exact * math.Abs(s.bound)
	return Result{
		Plan: s.answer, Value: value, Bound: max(value, s.bound-min(cut, s.missing)+slack),
		Proved: cut >= s.missing-slack, Prices: s.lambda[:s.p.Steps], Effort: s.effort,
	}, nil
}
