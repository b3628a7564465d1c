package split

import (
	"cmp"
	"slices"
)

// step is one step of a job along the upper concave hull of its options.
type step struct {
	job, to, devices int
	slope            float64 // what each of the devices is worth
}

// Hull goes up the concave hulls of the jobs' values, the steepest step first, until
// one does not fit; then it uses what is left over, job by job, for what gains most,
// and exchanges devices between two jobs while that gains. The bound is that of the
// linear relaxation, in which the first step that does not fit is taken in part.
func Hull(jobs []Job, devices int) (Plan, bool) {
	left, ok := beyondLeast(jobs, devices)
	if !ok {
		return Plan{}, false
	}
	p := Plan{Choices: make([]int, len(jobs))}
	var steps []step
	for j, options := range jobs {
		for at, next := 0, steepest(options, 0); next >= 0; at, next = next, steepest(options, next) {
			more := options[next].Devices - options[at].Devices
			steps = append(steps, step{j, next, more, (options[next].Value - options[at].Value) / float64(more)})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.slope, a.slope) })
	bound := value(jobs, p.Choices)
	cut := false
	stuck := make([]bool, len(jobs))
	for _, s := range steps {
		if s.devices <= left && !stuck[s.job] {
			left -= s.devices
			p.Choices[s.job] = s.to
			if !cut {
				bound += float64(s.slope * float64(s.devices))
			}
			continue
		}
		if !cut { // the relaxation ends here: what is left at this price
			bound += float64(s.slope * float64(left))
			cut = true
		}
		stuck[s.job] = true
	}
	exchange(jobs, p.Choices, fill(jobs, p.Choices, left))
	p.Value = value(jobs, p.Choices)
	p.Bound = max(bound, p.Value)
	return p, true
}

// peak is the best option with no more devices than that in force and so many besides; the least of equals.
func peak(options Job, at, besides int) int {
	best := at
	for c, o := range options {
		if o.Devices <= options[at].Devices+besides && o.Value > options[best].Value {
			best = c
		}
	}
	return best
}

// steepest is the next corner of the hull above an option, the farthest of equals; -1 if values only fall.
func steepest(options Job, at int) int {
	best, slope := -1, 0.0
	for c := at + 1; c < len(options); c++ {
		s := (options[c].Value - options[at].Value) / float64(options[c].Devices-options[at].Devices)
		if s > slope || s == slope && best >= 0 {
			best, slope = c, s
		}
	}
	return best
}

// fill uses devices that are left over: each time for the option that gains most of any job.
func fill(jobs []Job, choices []int, left int) int {
	for left > 0 {
		job, to, most := -1, 0, 0.0
		for j, options := range jobs {
			best := peak(options, choices[j], left)
			if gain := options[best].Value - options[choices[j]].Value; gain > most {
				job, to, most = j, best, gain
			}
		}
		if job < 0 {
			break
		}
		left -= jobs[job][to].Devices - jobs[job][choices[job]].Devices
		choices[job] = to
	}
	return left
}

const (
	// exchanges bounds how often two jobs exchange devices: few do, near the last step of the hulls.
	exchanges = 64
	// gains is the least gain that counts, relative to nothing but rounding.
	gains = 1e-12
)

// offer is a job that would give up devices, the option that it goes to, and what it loses.
type offer struct {
	job, to int
	loss    float64
}

// exchange lets one job have more devices and another one fewer, while both together gain.
func exchange(jobs []Job, choices []int, left int) {
	for range exchanges {
		offers := offersOf(jobs, choices)
		taker, most := offer{job: -1}, gains
		var giver offer
		for j, options := range jobs {
			at := options[choices[j]]
			for c := choices[j] + 1; c < len(options); c++ {
				need, worth := options[c].Devices-at.Devices-left, options[c].Value-at.Value
				if worth <= most || need < 1 || need >= len(offers) {
					continue
				}
				for _, o := range offers[need] {
					if o.job >= 0 && o.job != j && worth-o.loss > most {
						taker, giver, most = offer{job: j, to: c}, o, worth-o.loss
					}
				}
			}
		}
		if taker.job < 0 {
			return
		}
		for _, o := range []offer{taker, giver} {
			left -= jobs[o.job][o.to].Devices - jobs[o.job][choices[o.job]].Devices
			choices[o.job] = o.to
		}
	}
}

// offersOf are, for each number of devices, the two jobs that lose least by giving up that many or more.
func offersOf(jobs []Job, choices []int) [][2]offer {
	most := 0
	for j, options := range jobs {
		most = max(most, options[choices[j]].Devices-options[0].Devices)
	}
	offers := make([][2]offer, most+1)
	for n := range offers {
		offers[n] = [2]offer{{job: -1}, {job: -1}}
	}
	for j, options := range jobs {
		at := options[choices[j]]
		for c := range choices[j] {
			take(&offers[at.Devices-options[c].Devices], offer{j, c, at.Value - options[c].Value})
		}
	}
	for n := most - 1; n >= 0; n-- { // who gives up more gives up as many
		for _, o := range offers[n+1] {
			if o.job >= 0 {
				take(&offers[n], o)
			}
		}
	}
	return offers
}

// take keeps the two best offers of two jobs.
func take(two *[2]offer, o offer) {
	switch {
	case two[0].job == o.job && o.loss >= two[0].loss:
	case two[0].job < 0 || o.loss < two[0].loss:
		if two[0].job != o.job {
			two[1] = two[0]
		}
		two[0] = o
	case two[1].job < 0 || o.loss < two[1].loss:
		two[1] = o
	}
}
