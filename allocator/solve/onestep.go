package solve

import (
	"errors"
	"fmt"
	"math"
)

// OneStep is the allocation of a single step, as Saxena et al. state it
// ("Effective Elastic Scaling of Deep Learning Workloads"): every job gets one of
// the counts, together they are at most Devices, and the sum of the counts' values
// is maximised. It is the multiple-choice knapsack problem.
type OneStep struct {
	Devices int
	Counts  []int // ascending, at most 254 of them; 0 may be the first
	// Values are those of each of Counts, by job: any numbers in any order; -Inf is a
	// count that the job may not have.
	Values [][]float64
}

// OneStepResult is a count for each job and what is known about them.
type OneStepResult struct {
	Counts []int   // by job; owned by the solver, valid until it solves again
	Value  float64 // as EvalOneStep computes it
	Bound  float64 // no counts have a higher value
	Proved bool    // no counts have a higher value than Value, up to rounding
	Price  float64 // of a device, at which demand about meets supply; 0 when Exact found the counts
}

// OneStepSolver solves one-step problems and keeps its memory in between, so
// that a problem no larger than an earlier one is solved without allocating.
// The zero value is ready; it is not safe for concurrent use.
type OneStepSolver struct {
	p    *OneStep
	low  []uint8 // by job: the index of its least count
	at   []uint8 // by job: the index of the count chosen
	room int     // devices beyond the least counts of all jobs

	// The dynamic programme's.
	value, next []float64
	choice      []uint8

	hull    hull
	changes changes
	counts  []int
}

// maxChoices bounds the table of the dynamic programme, in bytes.
const maxChoices = 1 << 28

// affordable is how many additions the dynamic programme may take for Solve to
// turn to it when the hull has left a gap: some tens of milliseconds.
const affordable = 2e7

// Validate reports what is wrong with the problem.
func (p *OneStep) Validate() error {
	if p.Devices < 0 || len(p.Counts) == 0 || len(p.Counts) >= math.MaxUint8 {
		return fmt.Errorf("%d devices, %d counts: use 0 devices or more and 1 to %d counts", p.Devices, len(p.Counts), math.MaxUint8-1)
	}
	for k, c := range p.Counts {
		if c < 0 || k > 0 && c <= p.Counts[k-1] {
			return fmt.Errorf("counts %v: use ascending numbers from 0", p.Counts)
		}
	}
	least := 0
	for i, values := range p.Values {
		if len(values) != len(p.Counts) {
			return fmt.Errorf("job %d: %d values: use one for each of %v", i, len(values), p.Counts)
		}
		first := -1
		for k, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 1) {
				return fmt.Errorf("job %d: %v for %d devices: use a number, or -Inf for a count that it may not have", i, v, p.Counts[k])
			}
			if first < 0 && !math.IsInf(v, -1) {
				first = k
			}
		}
		if first < 0 {
			return fmt.Errorf("job %d: it may have none of %v: leave it out", i, p.Counts)
		}
		least += p.Counts[first]
	}
	if least > p.Devices {
		return fmt.Errorf("%d devices: the jobs need %d at least", p.Devices, least)
	}
	return nil
}

func (s *OneStepSolver) prepare(p *OneStep) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("solve one step of %d jobs: %w", len(p.Values), err)
	}
	n := len(p.Values)
	s.p, s.room = p, p.Devices
	s.low, s.at, s.counts = resize(s.low, n), resize(s.at, n), resize(s.counts, n)
	for i, values := range p.Values {
		k := 0
		for math.IsInf(values[k], -1) {
			k++
		}
		s.low[i] = uint8(k)
		s.room -= p.Counts[k]
	}
	return nil
}

// Solve finds the best counts: by Hull, which mostly proves that they are, and
// otherwise by Exact, as long as that is affordable.
func (s *OneStepSolver) Solve(p *OneStep) (OneStepResult, error) {
	r, err := s.Hull(p)
	if err != nil || r.Proved || float64(len(p.Values))*float64(s.room)*float64(len(p.Counts)) > affordable {
		return r, err
	}
	price := r.Price
	r, err = s.Exact(p)
	r.Price = price
	return r, err
}

var errTooLarge = errors.New("the dynamic programme's table would be too large: use Hull, which has a bound")

// Exact finds the best counts by dynamic programming over jobs and devices,
// recurrence (4) of Saxena et al. with P(0, ·) = 0. It takes jobs × devices ×
// counts additions, and a byte for each job and device.
func (s *OneStepSolver) Exact(p *OneStep) (OneStepResult, error) {
	if err := s.prepare(p); err != nil {
		return OneStepResult{}, err
	}
	most := 0
	for i := range p.Values {
		most += p.Counts[len(p.Counts)-1] - p.Counts[s.low[i]]
	}
	s.room = min(s.room, most)
	width := s.room + 1
	if len(p.Values) > maxChoices/width {
		return OneStepResult{}, fmt.Errorf("solve one step of %d jobs on %d devices: %w", len(p.Values), p.Devices, errTooLarge)
	}
	s.value, s.next = resize(s.value, width), resize(s.next, width)
	s.choice = resize(s.choice, len(p.Values)*width)
	clear(s.value)
	for i := range p.Values {
		s.choose(i, s.choice[i*width:][:width])
		s.value, s.next = s.next, s.value
	}
	left := s.room
	for i := len(p.Values) - 1; i >= 0; i-- {
		s.at[i] = s.choice[i*width+left]
		left -= p.Counts[s.at[i]] - p.Counts[s.low[i]]
	}
	best := 0.0
	if len(p.Values) > 0 {
		best = s.value[s.room]
	}
	return s.result(best)
}

// choose makes next, the value of the first i+1 jobs with so many devices
// beyond their least counts, out of that of the first i.
func (s *OneStepSolver) choose(i int, choice []uint8) {
	low, values := int(s.low[i]), s.p.Values[i]
	for w, v := range s.value {
		s.next[w] = v + values[low]
		choice[w] = uint8(low)
	}
	for k := low + 1; k < len(values); k++ {
		more, v := s.p.Counts[k]-s.p.Counts[low], values[k]
		if more > s.room {
			break
		}
		before, next, chosen := s.value[:s.room+1-more], s.next[more:], choice[more:]
		for w, b := range before {
			if sum := b + v; sum > next[w] {
				next[w], chosen[w] = sum, uint8(k)
			}
		}
	}
}

// result checks the counts chosen. bound is up to rounding.
func (s *OneStepSolver) result(bound float64) (OneStepResult, error) {
	for i, k := range s.at {
		s.counts[i] = s.p.Counts[k]
	}
	value, err := EvalOneStep(s.p, s.counts)
	if err != nil {
		return OneStepResult{}, fmt.Errorf("check the counts found: %w", err)
	}
	size := 0.0 // of the numbers that were added up
	for i, k := range s.at {
		size += math.Abs(s.p.Values[i][k])
	}
	slack := exact * size
	return OneStepResult{Counts: s.counts, Value: value, Bound: max(value, bound+slack), Proved: bound <= value+slack}, nil
}
