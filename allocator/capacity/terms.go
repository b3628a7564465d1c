package capacity

import "math"

// Terms are what a job's costs are made of. Times are in hours from now, weights and prices in money an hour.
type Terms struct {
	// Deadline is d_j, in hours from now; negative if it has passed, +Inf = none.
	Deadline float64
	// Weight is ω_j, the cost of an hour of tardiness, and Postponed ω̂_j, that of an
	// hour of the worst tardiness of a job that waits.
	Weight, Postponed float64
	// Times are t_jvg, by type and number of devices from one on; +Inf = it cannot run so.
	Times [][]float64
	// Longest is M_j, where it is not the longest of Times: a job that runs has to start
	// again once it has waited, and what that costs must not depend on how it runs now.
	Longest float64
	// Cheapest is what running costs at the least on nodes that are no choice now; with Repaid
	// it counts beside the choices there are. 0 = Elsewhere is false.
	Cheapest  float64
	Elsewhere bool // there are such nodes
	// Prices are c_v, of a node of each type an hour.
	Prices []float64
	// Horizon is H: a job that waits is decided about again after so long at the latest.
	Horizon float64
	// Repaid: what a job that waits costs later, at the least and with a node for itself,
	// counts for waiting as well, so that it runs now unless that is dearer. The paper
	// leaves that out: waiting is free to jobs with time to spare.
	Repaid bool
}

// PostponedWeight is ω̂/ω (section V-A).
const PostponedWeight = 100

// postponedTie is by how much waiting is dearer than running, where nothing else tells the
// two apart: that part of the cost, and a little for what costs nothing.
const (
	postponedTie   = 1e-3
	postponedLeast = 1e-6
)

// Job makes a job's costs, as the objective of section IV has them: ω·τ by (7) plus the
// share g/s_v of the node's price for running, ω̂·τ̂ by (8) for waiting.
func (t Terms) Job(types []Type) Job {
	j := Job{Costs: make([][]float64, len(types))}
	longest, cheapest := 0.0, math.Inf(1)
	for v, times := range t.Times {
		j.Costs[v] = make([]float64, len(times))
		for i, time := range times {
			if math.IsInf(time, 1) {
				j.Costs[v][i] = time
				continue
			}
			longest = max(longest, time)
			pay := float64(i+1) / float64(types[v].Devices) * t.Prices[v] * time
			cheapest = min(cheapest, pay+types[v].Idle*float64(types[v].Devices-i-1))
			j.Costs[v][i] = t.Weight*late(time, t.Deadline) + pay
		}
	}
	if t.Longest > 0 {
		longest = t.Longest
	}
	j.Wait = t.Postponed * late(t.Horizon+longest, t.Deadline)
	if t.Elsewhere {
		cheapest = min(cheapest, t.Cheapest)
	}
	if t.Repaid && !math.IsInf(cheapest, 1) {
		j.Wait += cheapest*(1+postponedTie) + postponedLeast
	}
	return j
}

// late is how long after the deadline something ends.
func late(end, deadline float64) float64 { return max(0, end-deadline) }

// PriceIdle makes an idle device of each type cost its share of the node's price for as
// long as the jobs take on average, each where it is cheapest with a node to itself. The
// paper's μ is the same number for all, and no money.
func PriceIdle(types []Type, prices []float64, jobs []Terms) {
	sum := 0.0
	for _, t := range jobs {
		least, takes := math.Inf(1), 0.0
		for v, times := range t.Times {
			for _, time := range times {
				if pay := time * prices[v]; pay < least {
					least, takes = pay, time
				}
			}
		}
		sum += takes
	}
	for v := range types {
		types[v].Idle = prices[v] / float64(types[v].Devices) * sum / float64(max(1, len(jobs)))
	}
}
