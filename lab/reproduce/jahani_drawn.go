package reproduce

import (
	"math"
	"math/rand/v2"

	"github.com/bellows-ml/bellows/allocator/capacity"
	"github.com/bellows-ml/bellows/lab/plan"
)

// jahaniGPUs are the models of Table II, and how long a training takes there beside a K80.
// The paper gives no times: these are drawn as the GPUs' published speeds suggest.
var jahaniGPUs = map[string][2]float64{"K80": {1, 1}, "M60": {1.1, 1.4}, "GTX1080Ti": {0.3, 0.5}, "P600": {2, 3.2}}

// jahaniTypes is Table II.
func jahaniTypes() []plan.NodeType {
	return []plan.NodeType{
		{Name: "NC6", GPU: "K80", Devices: 1, Price: 0.56},
		{Name: "NC12", GPU: "K80", Devices: 2, Price: 1.13},
		{Name: "NC24", GPU: "K80", Devices: 4, Price: 2.25},
		{Name: "NV6", GPU: "M60", Devices: 1, Price: 0.62},
		{Name: "NV12", GPU: "M60", Devices: 2, Price: 1.24},
		{Name: "NV24", GPU: "M60", Devices: 4, Price: 2.48},
		{Name: "in-house 1", GPU: "P600", Devices: 2, Price: 0.11},
		{Name: "in-house 2", GPU: "GTX1080Ti", Devices: 8, Price: 1.13},
		{Name: "in-house 3", GPU: "P600", Devices: 8, Price: 0.44},
	}
}

const (
	// jahaniMedian and jahaniSpread are of the hours that a training takes on one K80: lognormal.
	jahaniMedian, jahaniSpread = 4, 0.8
	// jahaniNoise is how far a time is off the formula.
	jahaniNoise = 0.03
	// jahaniLoose and jahaniTight end the range of deadlines, in longest times: as printed
	// (section V-A), which leaves half of the jobs time to spare, and so that devices are scarce.
	jahaniLoose, jahaniTight = 2, 0.6
)

// jahaniJobs draws 10 jobs a node, as section V-A says: deadlines, weights, and Poisson
// arrivals so many hours apart (0 = all at once). A training's times follow Amdahl's law
// with a parallel part of 75 to 98 %.
func jahaniJobs(seed uint64, nodes int, apart, deadlines float64) []plan.Job {
	r := rand.New(rand.NewPCG(seed, 17))
	var out []plan.Job
	now := 0.0
	for range 10 * nodes {
		j := plan.Job{Submit: now}
		base, parallel := jahaniMedian*math.Exp(jahaniSpread*r.NormFloat64()), 0.75+0.23*r.Float64()
		of := map[string]float64{}
		least, most := math.Inf(1), 0.0
		for _, t := range jahaniTypes() {
			if of[t.GPU] == 0 {
				span := jahaniGPUs[t.GPU]
				of[t.GPU] = span[0] + (span[1]-span[0])*r.Float64()
			}
			var times []float64
			for g := 1; g <= t.Devices; g++ {
				times = append(times, base*of[t.GPU]*(1-parallel+parallel/float64(g))*(1+jahaniNoise*r.NormFloat64()))
			}
			for _, x := range times {
				least, most = min(least, x), max(most, x)
			}
			j.Times = append(j.Times, times)
		}
		j.Deadline = now + least + r.Float64()*(deadlines*most-least)
		j.Weight = 0.36 + 0.72*r.Float64()
		out = append(out, j)
		now += apart * r.ExpFloat64()
	}
	return out
}

// jahaniProblem is the first decision about jobs that are all there.
func jahaniProblem(jobs []plan.Job, nodes int) *capacity.Problem {
	p := &capacity.Problem{Nodes: nodes, Full: true}
	var prices []float64
	for _, t := range jahaniTypes() {
		p.Types = append(p.Types, capacity.Type{Devices: t.Devices, Idle: 1})
		prices = append(prices, t.Price)
	}
	for _, j := range jobs {
		p.Jobs = append(p.Jobs, capacity.Terms{
			Deadline: j.Deadline, Weight: j.Weight, Postponed: 100 * j.Weight, Times: j.Times, Prices: prices, Horizon: 1,
		}.Job(p.Types))
	}
	return p
}
