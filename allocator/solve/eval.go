package solve

import "fmt"

// Plan is the number of devices of each job in each step: job i's are
// [i*Steps, (i+1)*Steps).
type Plan []int

// Eval computes the value of a plan from its counts alone: the sum over jobs
// and steps of the fraction of the job's work that is done by then (Hu et al.,
// equation 1), with the bonuses of jobs that begin with their present number. It is the check on everything else here, and this file shares
// no code with it: it calls nothing of this package.
func Eval(p *Problem, plan Plan) (float64, error) {
	if len(plan) != len(p.Jobs)*p.Steps {
		return 0, fmt.Errorf("plan of %d counts: %d jobs in %d steps have %d", len(plan), len(p.Jobs), p.Steps, len(p.Jobs)*p.Steps)
	}
	total := 0.0
	for i := range p.Jobs {
		j, done := &p.Jobs[i], 0.0
		for t, n := range plan[i*p.Steps : (i+1)*p.Steps] {
			speed, known := 0.0, false
			for k, count := range p.Counts {
				if count == n && k < len(j.Speeds) {
					speed, known = j.Speeds[k], true
				}
			}
			if !known || n < j.Min || n > j.Max {
				return 0, fmt.Errorf("job %d, step %d: %d devices are not among %v from %d to %d", i, t, n, p.Counts, j.Min, j.Max)
			}
			if done += p.Step * speed; done > j.Work {
				done = j.Work
			}
			total += done / j.Work
			if t == 0 && n == j.Present {
				total += j.Bonus
			}
		}
	}
	for t := range p.Steps {
		used := 0
		for at := t; at < len(plan); at += p.Steps {
			used += plan[at]
		}
		if used > p.Devices {
			return 0, fmt.Errorf("step %d: %d devices of %d", t, used, p.Devices)
		}
	}
	return total, nil
}

// EvalOneStep computes the value of one count a job from the counts alone, as
// Eval does for plans, and with no more of this package.
func EvalOneStep(p *OneStep, counts []int) (float64, error) {
	if len(counts) != len(p.Values) {
		return 0, fmt.Errorf("%d counts for %d jobs", len(counts), len(p.Values))
	}
	total, used := 0.0, 0
	for i, n := range counts {
		value, known := 0.0, false
		for k, count := range p.Counts {
			if count == n && k < len(p.Values[i]) {
				value, known = p.Values[i][k], true
			}
		}
		if !known || value < -1e300 {
			return 0, fmt.Errorf("job %d: %d devices are not among those that it may have", i, n)
		}
		total += value
		used += n
	}
	if used > p.Devices {
		return 0, fmt.Errorf("%d devices of %d", used, p.Devices)
	}
	return total, nil
}
