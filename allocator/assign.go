package allocator

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Which job is in which pool is decided for the largest
//
//	Φ = Σ_i log v_i(m_i) + Σ_m n_m·log f(m)
//
// over all jobs i, where v is a job's speed at its full size on its model, n_m how many jobs a
// pool has, and f what remains of such a speed where they share it: with D devices at their full
// sizes, K at their smallest and N devices,
//
//	f = 1 where D ≤ N,  (N/D)^p where K ≤ N,  (K/D)^p·N/K else       p = shareExponent
//
// It is the largest product of all speeds, as of proportional fairness, and of the normalised
// throughputs of Gavel (Narayanan et al., OSDI 2020): speeds count relative to the job's own, so
// that a pool goes to those that gain most by it, and no policy needs to know of it. What
// a policy then makes of its pool's devices is its own affair.

// Preference is as how many times as fast an owner's preferred model counts for its job.
const Preference = 2

const (
	// shareExponent is how a speed falls with the share of its devices: that of goodput.Default.
	shareExponent = 0.678
	// moveCharge is how often a move to another model pays what the start costs, and moveLeast
	// what it gains at the least, as the log of a speed: a change of the others' numbers is no reason.
	moveCharge, moveLeast = 10, 0.05
	// unknownLeft is the least work that is taken to be left where it is not known.
	unknownLeft = time.Hour
	// passes bounds the search, which goes on while any move or exchange gains.
	passes = 16
)

// choice is what a job has of one pool.
type choice struct {
	value       float64 // log of its speed at its full size, less what a move costs
	least, full int     // of its sizes there
}

// load is what a pool has to bear.
type load struct{ devices, jobs, least, full int }

// add is the load with one job more, or less by sign −1.
func (l load) add(c choice, sign int) load {
	l.jobs += sign
	l.least += sign * c.least
	l.full += sign * c.full
	return l
}

// shared is n·log f.
func (l load) shared() float64 {
	n, d, k := max(float64(l.devices), 0.5), float64(l.full), float64(l.least)
	switch {
	case l.jobs == 0 || l.full <= l.devices:
		return 0
	case l.least <= l.devices:
		return float64(l.jobs) * shareExponent * math.Log(n/d)
	}
	return float64(l.jobs) * (shareExponent*math.Log(k/d) + math.Log(n/k))
}

// assign chooses a pool for each job that has options.
func (q *pools) assign() {
	a := &assignment{pools: q, loads: make([]load, len(q.of)), choices: make([][]choice, len(q.jobs))}
	for m := range q.of {
		a.loads[m].devices = q.of[m].devices.Usable()
	}
	for i := range q.jobs {
		a.enter(i)
	}
	for _, i := range a.free {
		if s := q.jobs[i]; slices.Contains(s.options, s.home) {
			a.put(i, s.home)
		}
	}
	for _, i := range a.free {
		if q.jobs[i].at == none {
			a.put(i, a.best(i))
		}
	}
	for range passes {
		moved := false
		for _, i := range a.free {
			if to := a.best(i); to != q.jobs[i].at {
				a.put(i, to)
				moved = true
			}
		}
		if !a.exchange() && !moved {
			return
		}
	}
}

// enter takes a job into the loads, or into those that have a choice.
func (a *assignment) enter(i int) {
	j, s := a.in.Jobs[i], &a.jobs[i]
	if s.kept || len(s.options) == 0 {
		return
	}
	held := 0
	if s.home >= 0 {
		for range a.whole.Held(j) {
			held++
		}
	}
	if s.home >= 0 && a.whole.MustKeep(j) { // the others share what it leaves
		a.loads[s.home].devices -= held
		s.at = s.home
		return
	}
	if s.home >= 0 && a.whole.Stays(j) { // what it has of a cordoned node is its alone
		a.loads[s.home].devices += j.Workers - held
	}
	a.choices[i] = a.choicesOf(i)
	if s.chosen != none {
		a.put(i, s.chosen)
		return
	}
	if len(s.options) == 1 {
		a.put(i, s.options[0])
		return
	}
	a.free = append(a.free, i)
}

// assignment is a distribution of jobs in the making.
type assignment struct {
	*pools
	loads   []load
	choices [][]choice // by job and pool; of the job's options alone
	free    []int      // jobs that have several
}

func (a *assignment) choicesOf(i int) []choice {
	out := make([]choice, len(a.of))
	s := a.jobs[i]
	for _, m := range s.options {
		o := a.of[m]
		j := a.in.Jobs[i].On(o.model)
		c := choice{least: j.Sizes[0], full: j.Sizes[0]}
		at := 0
		for k, size := range j.Sizes {
			if size <= o.devices.UsableFor(j) {
				c.full, at = size, k
			}
		}
		if m == s.home && c.full < j.Workers {
			c.least, c.full = j.Workers, j.Workers
		}
		c.value = math.Log(a.rate(i, m)) + math.Log(speedOf(j, at))
		if s.home >= 0 && m != s.home {
			c.value -= a.fee(i, m)
		}
		out[m] = c
	}
	return out
}

// rate is how fast one device of a pool is for a job, with its owner's preference.
func (a *assignment) rate(i, m int) float64 {
	j, model := a.in.Jobs[i], a.of[m].model
	if slices.ContainsFunc(j.Models, func(x OnModel) bool { return x.Model == model && x.Preferred }) {
		return Preference * j.RateOn(model)
	}
	return j.RateOn(model)
}

// Preferring are models with the rates that they count with.
func Preferring(models []OnModel) []OnModel {
	models = slices.Clone(models)
	for m := range models {
		if x := &models[m]; x.Preferred {
			x.Rate = Preference * cmp.Or(max(0, x.Rate), 1)
		}
	}
	return models
}

// fee is what it costs a running job to move to another pool, as the log of a speed.
func (a *assignment) fee(i, m int) float64 {
	j := a.in.Jobs[i]
	here := j.On(a.of[a.jobs[i].home].model)
	left := here.Service
	if here.Work.Known {
		left = here.Work.Left
	} else {
		left = max(left, unknownLeft)
	}
	speed := 1.0
	if k := slices.Index(here.Sizes, here.Workers); k >= 0 {
		speed = speedOf(here, k)
	}
	takes := left.Seconds() / speed
	return moveLeast + min(1/moveLeast, moveCharge*j.On(a.of[m].model).StartCost(j.Workers).Seconds()/max(takes, 1))
}

// speedOf is a job's speed at its kth size, relative to one device.
func speedOf(j JobView, k int) float64 {
	if k < len(j.Speeds) && j.Speeds[k] > 0 {
		return j.Speeds[k]
	}
	return math.Pow(float64(j.Sizes[k]), shareExponent)
}

// put moves a job into a pool.
func (a *assignment) put(i, m int) {
	if from := a.jobs[i].at; from != none {
		a.loads[from] = a.loads[from].add(a.choices[i][from], -1)
	}
	a.jobs[i].at = m
	a.loads[m] = a.loads[m].add(a.choices[i][m], 1)
}

// gain is by how much Φ grows if a job that is in no pool is put into one.
func (a *assignment) gain(i, m int) float64 {
	c := a.choices[i][m]
	return c.value + a.loads[m].add(c, 1).shared() - a.loads[m].shared()
}

// least gains count as none: they would be made for ever.
const leastGain = 1e-9

// best is the pool in which a job gains most, its present one of equals.
func (a *assignment) best(i int) int {
	from := a.jobs[i].at
	if from != none {
		a.loads[from] = a.loads[from].add(a.choices[i][from], -1)
		defer func() { a.loads[from] = a.loads[from].add(a.choices[i][from], 1) }()
	}
	best, most := from, math.Inf(-1)
	if from != none {
		most = a.gain(i, from) + leastGain
	}
	for _, m := range a.jobs[i].options {
		if g := a.gain(i, m); g > most || best == none {
			best, most = m, g
		}
	}
	return best
}

// exchange lets two jobs of two pools take each other's places where that gains, and reports
// whether any did.
func (a *assignment) exchange() (gained bool) {
	for m := range a.of {
		for n := m + 1; n < len(a.of); n++ {
			for range a.free { // each ends with the pair that gains most, so that few follow
				x, y := a.wants(m, n), a.wants(n, m)
				if x == none || y == none {
					break
				}
				before := a.total(m) + a.total(n) + a.choices[x][m].value + a.choices[y][n].value
				a.put(x, n)
				a.put(y, m)
				if a.total(m)+a.total(n)+a.choices[x][n].value+a.choices[y][m].value > before+leastGain {
					gained = true
					continue
				}
				a.put(x, m)
				a.put(y, n)
				break
			}
		}
	}
	return gained
}

func (a *assignment) total(m int) float64 { return a.loads[m].shared() }

// wants is the job of one pool that gains most in another by itself.
func (a *assignment) wants(from, to int) int {
	best, most := none, math.Inf(-1)
	for _, i := range a.free {
		if a.jobs[i].at != from || !slices.Contains(a.jobs[i].options, to) {
			continue
		}
		if g := a.choices[i][to].value - a.choices[i][from].value; g > most {
			best, most = i, g
		}
	}
	return best
}
