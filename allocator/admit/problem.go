package admit

import (
	"errors"
	"fmt"
	"math"

	"github.com/bellows-ml/bellows/cluster"
)

// Problem is the devices of a cluster and the jobs on them. Time is in any one
// unit, from now; work is what one device does in that time. The running slot is
// number 0.
type Problem struct {
	Devices int     // in each slot
	First   float64 // what is left of the running slot
	Slot    float64 // the length of each later one
	Jobs    []Job
}

// Job is what a plan has to know of one job.
type Job struct {
	ID       cluster.JobID
	Work     float64 // left, more than 0
	Deadline float64 // more than 0; +Inf = none: such a job has no part in the plan
	Counts   []int   // the numbers of devices that it may have, ascending, more than 0
	Speeds   []float64
	// Pauses are what a start on each of Counts costs, in time without training; nil = nothing.
	Pauses  []float64
	Present int // devices that it has now, 0 or one of Counts
	// Owed is what is left of the pause of its last start, while it keeps Present.
	Owed float64
	// Kept says that it has Present throughout the running slot, whatever the plan.
	Kept bool
	// Promised is the profile of the last plan, from the running slot on; nil = it was promised nothing.
	Promised Profile
}

// Profile is how many devices a job has, slot by slot.
type Profile = cluster.Profile

// Run is a number of devices from one slot on, a part of a Profile.
type Run = cluster.Run

// Bounds of a Problem.
const (
	maxCounts = 1 << 10
	maxSlots  = 1 << 30 // beyond it slots cannot be counted
)

// Validate reports what is wrong with the problem.
func (p *Problem) Validate() error {
	switch {
	case p.Devices < 0:
		return fmt.Errorf("devices %d: use 0 or more", p.Devices)
	case !(p.Slot > 0) || math.IsInf(p.Slot, 0):
		return fmt.Errorf("slot %v: use a positive length", p.Slot)
	case !(p.First > 0) || p.First > p.Slot:
		return fmt.Errorf("first %v: use more than 0 and at most slot %v", p.First, p.Slot)
	}
	held := 0
	var faults []error
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if err := j.validate(p.Slot); err != nil && len(faults) < 8 {
			faults = append(faults, fmt.Errorf("job %q: %w", j.ID, err))
		}
		if j.Kept {
			held += j.Present
		}
	}
	if held > p.Devices {
		faults = append(faults, fmt.Errorf("devices %d: jobs that keep theirs have %d", p.Devices, held))
	}
	return errors.Join(faults...)
}

func (j *Job) validate(slot float64) error {
	switch {
	case !(j.Work > 0) || math.IsInf(j.Work, 0):
		return fmt.Errorf("work %v: use a positive number", j.Work)
	case !(j.Deadline > 0):
		return fmt.Errorf("deadline %v: use a moment to come", j.Deadline)
	case !math.IsInf(j.Deadline, 1) && j.Deadline/slot > maxSlots:
		return fmt.Errorf("deadline %v: it is more than %d slots away", j.Deadline, maxSlots)
	case len(j.Counts) == 0 || len(j.Counts) > maxCounts || len(j.Speeds) != len(j.Counts):
		return fmt.Errorf("%d counts, %d speeds: use as many of both, 1 to %d", len(j.Counts), len(j.Speeds), maxCounts)
	case j.Pauses != nil && len(j.Pauses) != len(j.Counts):
		return fmt.Errorf("%d pauses for %d counts: use one for each", len(j.Pauses), len(j.Counts))
	case !(j.Owed >= 0) || math.IsInf(j.Owed, 0):
		return fmt.Errorf("owed %v: use 0 or more", j.Owed)
	}
	known := j.Present == 0
	for k, n := range j.Counts {
		if n <= 0 || k > 0 && n <= j.Counts[k-1] {
			return fmt.Errorf("counts %v: use ascending numbers from 1", j.Counts)
		}
		if v := j.Speeds[k]; !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("speed %v on %d devices: use a positive number", v, n)
		}
		if j.Pauses != nil && (!(j.Pauses[k] >= 0) || math.IsInf(j.Pauses[k], 0)) {
			return fmt.Errorf("pause %v on %d devices: use 0 or more", j.Pauses[k], n)
		}
		known = known || n == j.Present
	}
	if !known {
		return fmt.Errorf("present %d: use 0 or one of counts %v", j.Present, j.Counts)
	}
	return nil
}

// start is when a slot begins.
func (p *Problem) start(slot int) float64 {
	if slot == 0 {
		return 0
	}
	return p.First + float64(slot-1)*p.Slot
}

// after is the first slot that begins at or after a moment.
func (p *Problem) after(at float64) int {
	if at <= 0 {
		return 0
	}
	n := 1 + max(0, int(math.Ceil((at-p.First)/p.Slot)))
	for p.start(n) < at { // a division that rounded down
		n++
	}
	return n
}
