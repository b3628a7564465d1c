package solve

import (
	"errors"
	"fmt"
	"math"
)

// Problem is one rolling-horizon decision. Work is measured in what one device
// does in one unit of time, and Step in the same unit of time.
type Problem struct {
	Devices int
	Steps   int     // how many steps to look ahead
	Step    float64 // the length of a step
	Counts  []int   // the numbers of devices there are, ascending; 0 may be the first
	Jobs    []Job
}

// Job is one job of a Problem.
type Job struct {
	Work   float64   // what is left to do, more than 0
	Min    int       // the least number of devices in every step, one of Counts
	Max    int       // the most
	Speeds []float64 // beside Counts: the speed relative to one device, not falling
	// Present is the number of devices in force; a plan that begins with it is
	// worth Bonus more. A negative number is in no plan.
	Present int
	Bonus   float64
}

// Bounds of a Problem; they keep the tables of one job small.
const (
	maxSteps  = 8
	maxCounts = 16
	maxStates = 1 << 16
)

// Validate reports what is wrong with the problem. An infeasible one, in which
// the least numbers together exceed the devices, is wrong too.
func (p *Problem) Validate() error {
	switch {
	case p.Steps < 1 || p.Steps > maxSteps:
		return fmt.Errorf("steps %d: use 1 to %d", p.Steps, maxSteps)
	case !(p.Step > 0) || math.IsInf(p.Step, 0):
		return fmt.Errorf("step %v: use a positive length", p.Step)
	case len(p.Counts) == 0 || len(p.Counts) > maxCounts:
		return fmt.Errorf("%d counts: use 1 to %d", len(p.Counts), maxCounts)
	}
	for k, c := range p.Counts {
		if c < 0 || k > 0 && c <= p.Counts[k-1] {
			return fmt.Errorf("counts %v: use ascending numbers from 0", p.Counts)
		}
	}
	if n := states(len(p.Counts), p.Steps); n > maxStates {
		return fmt.Errorf("%d counts in %d steps: %d states a job, at most %d", len(p.Counts), p.Steps, n, maxStates)
	}
	least := 0
	var faults []error
	for i := range p.Jobs {
		if err := p.validateJob(&p.Jobs[i]); err != nil && len(faults) < 8 {
			faults = append(faults, fmt.Errorf("job %d: %w", i, err))
		}
		least += p.Jobs[i].Min
	}
	if least > p.Devices {
		faults = append(faults, fmt.Errorf("%d devices: the jobs need %d at least", p.Devices, least))
	}
	return errors.Join(faults...)
}

func (p *Problem) validateJob(j *Job) error {
	if !(j.Work > 0) || math.IsInf(j.Work, 0) {
		return fmt.Errorf("work %v: use a positive number", j.Work)
	}
	if p.index(j.Min) < 0 || p.index(j.Max) < p.index(j.Min) {
		return fmt.Errorf("min %d, max %d: use two of %v, in this order", j.Min, j.Max, p.Counts)
	}
	if len(j.Speeds) != len(p.Counts) {
		return fmt.Errorf("%d speeds: use one for each of %v", len(j.Speeds), p.Counts)
	}
	for k, v := range j.Speeds {
		if !(v >= 0) || math.IsInf(v, 0) || k > 0 && v < j.Speeds[k-1] {
			return fmt.Errorf("speeds %v: use numbers from 0 that do not fall", j.Speeds)
		}
	}
	if !(j.Bonus >= 0) || math.IsInf(j.Bonus, 0) {
		return fmt.Errorf("bonus %v: use 0 or more", j.Bonus)
	}
	return nil
}

// index finds a count, or -1.
func (p *Problem) index(count int) int {
	for k, c := range p.Counts {
		if c == count {
			return k
		}
	}
	return -1
}
