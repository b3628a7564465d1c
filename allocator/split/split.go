package split

import "math"

// Option is a number of devices that a job may have, and what it is worth.
type Option struct {
	Devices int
	Value   float64
}

// Job is its options, ascending in Devices, which are above zero. Values may fall.
type Job []Option

// Plan is an answer.
type Plan struct {
	Choices []int // beside the jobs: the index of each one's option
	Value   float64
	// Bound is certified: no plan is worth more. Best's is its value.
	Bound float64
}

// Best maximises the sum of the values of one option a job, on so many devices at most;
// false where not even the smallest of all fit together, or a job has no option. With
// P(j, K) what the first j jobs are worth on K devices, it is the recurrence
//
//	P(j, K) = max over k of  P(j−1, K−k) + T_j(k)          P(0, K) = 0
//
// which the paper's Algorithm 1 means, and whose indices are wrong there: it looks up
// T_j(K) in place of T_j(k), takes P(j−1, K−k+1), stores K as the choice, and reads the
// choices of job j−1 for job j. As every job has its least number of devices in any
// plan, K counts those beyond. Of equal plans it is the one that gives the last jobs least.
func Best(jobs []Job, devices int) (Plan, bool) {
	spare, ok := beyondLeast(jobs, devices)
	if !ok {
		return Plan{}, false
	}
	width := spare + 1
	before, now := make([]float64, width), make([]float64, width)
	choice := make([]uint8, len(jobs)*width)
	for j, options := range jobs {
		row := choice[j*width : (j+1)*width]
		for k := range now {
			now[k] = math.Inf(-1)
		}
		for c, o := range options[:min(len(options), math.MaxUint8+1)] {
			more := o.Devices - options[0].Devices
			for k := more; k < width; k++ {
				if v := before[k-more] + o.Value; v > now[k] {
					now[k], row[k] = v, uint8(c)
				}
			}
		}
		before, now = now, before
	}
	p := Plan{Choices: make([]int, len(jobs))}
	left := spare
	for j := len(jobs) - 1; j >= 0; j-- {
		c := int(choice[j*width+left])
		p.Choices[j] = c
		left -= jobs[j][c].Devices - jobs[j][0].Devices
	}
	p.Value = value(jobs, p.Choices)
	p.Bound = p.Value
	return p, true
}

// Work is how many additions Best takes.
func Work(jobs []Job, devices int) float64 {
	spare, ok := beyondLeast(jobs, devices)
	if !ok {
		return 0
	}
	options := 0
	for _, j := range jobs {
		options += len(j)
	}
	return float64(options) * float64(spare+1)
}

// beyondLeast is how many devices are left once each job has its least number; false if
// there are not even that many.
func beyondLeast(jobs []Job, devices int) (spare int, ok bool) {
	spare = devices
	for _, j := range jobs {
		if len(j) == 0 {
			return 0, false
		}
		spare -= j[0].Devices
	}
	return spare, spare >= 0
}

func value(jobs []Job, choices []int) (sum float64) {
	for j, c := range choices {
		sum += jobs[j][c].Value
	}
	return sum
}
