package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// turnsJobs bounds the search, whose time grows as the square of the jobs.
	turnsJobs = 2048
	// turnsPasses is how often each job is looked at again: a third time changes little.
	turnsPasses = 2
	// turnsMove is the part of what a running job has left that a move to another model has to gain,
	// beside what the start costs flowtimeCharge times.
	turnsMove = 0.05
	// turnsExponent is how a speed falls with the share of its devices: that of goodput.Default.
	turnsExponent = 0.678
)

// Choose implements allocator.Chooser. While jobs outnumber devices they take turns on them, the shortest
// first, and a job's time on a model is waited for by those behind it: the models are chosen for the least
// sum of weighted flow times (docs/policies.md). Where all have devices, Run's assignment is as good.
func (flowtime) Choose(in allocator.Input) (models map[cluster.JobID]string, binding bool) {
	t := &turns{models: cluster.Models(in.Nodes), whole: allocator.NewDevices(in), at: make([]int, len(in.Jobs)), turn: make([][]turn, len(in.Jobs))}
	t.queues = make([][]int, len(t.models))
	least, devices := 0, 0
	for _, name := range t.models {
		d := allocator.NewDevices(allocator.Input{Nodes: cluster.OfModel(in.Nodes, name)})
		t.of = append(t.of, d)
		devices += d.Usable()
		share := make([]float64, d.Usable()+1)
		for k := range share {
			share[k] = math.Pow(float64(k)/max(1, float64(d.Usable())), turnsExponent)
		}
		t.share = append(t.share, share)
	}
	t.sum = make([]float64, len(t.models))
	for _, j := range in.Jobs {
		least += j.Sizes[0]
	}
	if least <= devices || len(in.Jobs) > turnsJobs {
		return nil, false
	}
	var free []int
	for i, j := range in.Jobs {
		if home := t.enter(i, j); home != nowhere && t.whole.MustKeep(j) {
			t.put(i, home)
		} else {
			free = append(free, i)
		}
	}
	t.choose(free)
	models = map[cluster.JobID]string{}
	for _, i := range free {
		if t.at[i] != nowhere {
			models[in.Jobs[i].ID] = t.models[t.at[i]]
		}
	}
	return models, false
}

// turns are the queues of jobs for the devices of each model.
type turns struct {
	whole  allocator.Devices
	models []string
	of     []allocator.Devices // by model
	share  [][]float64         // by model: how much longer a job takes where so many devices are shared, of all of them
	sum    []float64           // by model: the cost of its queue
	queues [][]int             // by model: the jobs, the longest by turn.work first
	at     []int               // by job: its model, or nowhere
	turn   [][]turn            // by job and model; open where it may run
}

const nowhere = -1

// turn is a job's on one model.
type turn struct {
	open       bool
	weight     float64 // ω
	own        float64 // what a second of its own flow time counts there: ω, and less of it where its owner prefers the model
	work       float64 // seconds on one device, over ω
	least      int     // its smallest size
	slow, fast float64 // seconds at its smallest and its largest size
	fee        float64 // seconds that count for a move there
}

// enter works out a job's turns, and returns the model of the devices that it has.
func (t *turns) enter(i int, j allocator.JobView) (home int) {
	home, t.at[i], t.turn[i] = nowhere, nowhere, make([]turn, len(t.models))
	for m := range t.models {
		for range t.of[m].Held(j) {
			home = m
		}
	}
	for m, name := range t.models {
		usable := t.of[m].UsableFor(j)
		if m == home && t.whole.Stays(j) { // a cordoned node keeps it
			usable = max(usable, j.Workers)
		}
		if usable < j.Sizes[0] || j.Models != nil && !slices.ContainsFunc(j.Models, func(x allocator.OnModel) bool { return x.Model == name }) {
			continue
		}
		there := expecting(j.On(name))
		left, weight, full := work(there), ownWeight(j), j.Sizes[0]
		for _, k := range j.Sizes {
			if k <= usable {
				full = k
			}
		}
		x := turn{open: true, weight: weight, own: weight, work: left / weight, least: j.Sizes[0], slow: left / speedAt(there, j.Sizes[0]), fast: left / speedAt(there, full)}
		if slices.ContainsFunc(j.Models, func(m allocator.OnModel) bool { return m.Model == name && m.Preferred }) {
			x.own /= allocator.Preference // for those behind it takes as long as it does
		}
		if home != nowhere && home != m {
			here := expecting(j.On(t.models[home]))
			x.fee = flowtimeCharge*there.StartCost(j.Workers).Seconds() + turnsMove*work(here)/speedAt(here, j.Workers)
		}
		t.turn[i][m] = x
	}
	if home != nowhere && t.turn[i][home].open {
		t.put(i, home)
		return home
	}
	return nowhere
}

// expecting is a job with what is expected of its work where that is not known.
func expecting(j allocator.JobView) allocator.JobView {
	if !j.Work.Known {
		j.Work = allocator.Left(expectedWork(j))
	}
	return j
}

// choose puts the free jobs, the longest first, where they cost least, and looks at each again.
func (t *turns) choose(free []int) {
	shortest := func(i int) float64 {
		out := math.Inf(1)
		for _, x := range t.turn[i] {
			if x.open {
				out = min(out, x.work)
			}
		}
		return out
	}
	order := slices.Clone(free)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(shortest(b), shortest(a)) })
	for _, i := range order {
		if t.at[i] == nowhere {
			t.move(i)
		}
	}
	for range turnsPasses {
		for _, i := range order {
			t.move(i)
		}
	}
}

// move puts a job where all jobs together cost least, where it is of equals.
func (t *turns) move(i int) {
	best, least := t.at[i], math.Inf(1)
	if best != nowhere {
		with := t.sum[best]
		t.take(i)
		least = with - t.sum[best] - leastSaving
	}
	was := best
	for m, x := range t.turn[i] {
		if !x.open || m == was {
			continue
		}
		without := t.sum[m]
		t.put(i, m)
		if more := t.sum[m] - without; more < least {
			best, least = m, more
		}
		t.take(i)
	}
	if best != nowhere {
		t.put(i, best)
	}
}

// leastSaving is how many seconds count as a saving: less may be rounding.
const leastSaving = 1e-6

// put enters a job into a queue, take removes it from its own.
func (t *turns) put(i, m int) {
	if t.at[i] != nowhere {
		t.take(i)
	}
	k := 0
	for k < len(t.queues[m]) && t.turn[t.queues[m][k]][m].work >= t.turn[i][m].work {
		k++
	}
	t.queues[m], t.at[i] = slices.Insert(t.queues[m], k, i), m
	t.sum[m] = t.cost(m)
}

func (t *turns) take(i int) {
	m := t.at[i]
	k := slices.Index(t.queues[m], i)
	t.queues[m], t.at[i] = slices.Delete(t.queues[m], k, k+1), nowhere
	t.sum[m] = t.cost(m)
}

// cost is the sum of the weighted flow times of a queue's jobs. A job is there alone with those that are
// longer at the end: if they have devices enough it takes longer the more share them, and until then all of
// them wait while it is served.
func (t *turns) cost(m int) (sum float64) {
	share := t.share[m]
	least, behind, n := 0, 0.0, max(1, float64(len(share)-1))
	for _, i := range t.queues[m] {
		x := &t.turn[i][m]
		least += x.least
		behind += x.own
		if least < len(share) {
			sum += float64(x.own * max(x.fast, float64(x.slow*share[least])))
		} else {
			sum += max(float64(x.own*x.slow), float64(behind*float64(x.least)*x.slow/n))
		}
		sum += float64(x.weight * x.fee)
	}
	return sum
}
