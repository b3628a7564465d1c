package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

// flowtime minimises the sum of all jobs' weighted flow times (completion times,
// counted from submission), rescales paid for, under a bound on waiting.
// docs/policies.md derives what follows.
//
// What was promised for a deadline comes first. Every job that fits has its smallest
// size, those that are overdue first, on half of the devices, and then the least weighted work. Then each gets the size k with the highest value
// over the next H seconds, less what its device time costs at one price for all:
//
//	v(k) = w·s(k)·(H − c(k))      if it goes on beyond H
//	       w·x + φ·ω·(H − t(k))   if it ends before, at t(k) = c(k) + x/s(k)
//
// Here x is the work left, s the speed, ω the job's own weight, and c what a
// change of size costs (0 at the present size; see flowtimeCharge). w is what one unit of its work adds to the flow times of all:
// in the optimum for jobs that are all present (Berg et al., heSRPT, see hesrpt.go),
// ω·((i^e − (i−1)^e)^(1−p))/s(N) for the i-th largest on N devices. The price is the least at which all
// choices together fit.
//
// The answer may be asked for whenever a job or node comes or goes (Prompt): what a
// change costs is weighed against what it gains at each answer, so that asking
// often does not make jobs rescale often. It changes no size only to learn its speed (ADR 47).
type flowtime struct{ keepsPromises }

const (
	// flowtimeHorizon bounds H: what a size is worth is weighed over an hour, or as
	// long as the jobs have left on average, if that is less.
	flowtimeHorizon = time.Hour
	// flowtimeFree is φ: heSRPT's value of work supposes that no job will come. With
	// the share φ of the devices left over by future jobs, work lasts, and
	// so weighs, 1/φ of that; here instead all that is not work counts φ.
	flowtimeFree = 0.3
	// flowtimeCharge is how often a change pays its cost: a size lasts a small part of
	// the horizon over which its gain is counted, until the next arrivals and ends. It pays no
	// more than the share flowtimeDearest of the horizon, unless it costs more.
	flowtimeCharge  = 10.0
	flowtimeDearest = 1.0 / 8
	// flowtimeBatchCharge is how often another batch at the same size pays its cost: no arrival
	// or end makes another one better, so that it lasts longer than a size.
	flowtimeBatchCharge = 4.0
	// flowtimeLongestWait is how long a job waits, in all, before it is overdue.
	flowtimeLongestWait = 24 * time.Hour
	// flowtimeOverdue is the share of the devices that overdue jobs have before all others. With all of them the queue
	// of a cluster that has too few is one of first come first served: one long job after the other, and the short ones behind.
	flowtimeOverdue = 0.5
	// flowtimeDoubling is by how much a priority must be higher to double a job's weight.
	flowtimeDoubling = 10
)

// Name implements allocator.Policy.
func (flowtime) Name() string { return "flowtime" }

// Prompt implements allocator.Prompt.
func (flowtime) Prompt() bool { return true }

func (flowtime) leavesIdle() {}

func (flowtime) movesAgain() {}

// Allocate implements allocator.Policy.
func (flowtime) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	d.expectWork()
	free, movable := d.clearMovable()
	d.keepPromises(movable)
	order := d.byWeightedWork(movable)
	d.startFitting(overdueFirst(d, order))
	d.chooseSizes(free, d.running(order))
	d.startFitting(order) // where one size did not fit, a smaller may
	d.explain("least completion time of all, rescales paid for")
	return d.answer()
}

// expectWork puts what is expected in the place of work that is not known.
func (d *draft) expectWork() {
	d.guessed = make([]bool, len(d.jobs))
	for i, j := range d.jobs {
		if !j.Work.Known {
			d.jobs[i].Work, d.guessed[i] = allocator.Left(expectedWork(j)), true
		}
	}
}

// ownWeight is ω: how much a second of the job's flow time counts beside one of a job of priority 0.
func ownWeight(j allocator.JobView) float64 {
	return math.Exp2(float64(j.Priority) / flowtimeDoubling)
}

// byWeightedWork sorts jobs by work left ÷ weight, the least first (Smith's rule).
func (d *draft) byWeightedWork(jobs []int) []int {
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(weightedWork(d.jobs[x]), weightedWork(d.jobs[y])) })
	return order
}

func weightedWork(j allocator.JobView) float64 { return work(j) / ownWeight(j) }

// overdueFirst moves the jobs to the front that have waited longer than they may, the
// earlier submitted first, until they have their share of the devices: at least one, whatever it needs.
// An overdue job stays overdue, so that none of these is halted for a shorter one.
func overdueFirst(d *draft, order []int) []int {
	var overdue []int
	for _, i := range order {
		if j := d.jobs[i]; d.in.Now.Sub(j.SubmittedAt)-j.Trained > flowtimeLongestWait {
			overdue = append(overdue, i)
		}
	}
	slices.Sort(overdue) // jobs are sorted by submission
	first, have := make([]bool, len(d.jobs)), 0
	for n, i := range overdue {
		if float64(have) >= flowtimeOverdue*float64(d.devices.Usable()) {
			overdue = overdue[:n]
			break
		}
		first[i] = true
		have += d.jobs[i].Sizes[0]
	}
	return append(overdue, slices.DeleteFunc(slices.Clone(order), func(i int) bool { return first[i] })...)
}

// valuation is what each size of each job is worth.
type valuation struct {
	d       *draft
	horizon float64   // seconds
	worth   []float64 // beside d.jobs: w
}

// valueWork makes the valuation for jobs in the order of byWeightedWork on so many devices.
func valueWork(d *draft, order []int, devices int) valuation {
	v := valuation{d: d, worth: hesrptWeights(d, order)}
	// Equals of known work are worth the same. Of those that are only expected to be equal, the
	// earlier submitted is worth more, as if it had less left: equal shares would end them all late.
	for n := 0; n < len(order); {
		sum, m := v.worth[order[n]], n+1
		for ; m < len(order) && d.knownEquals(order[n], order[m]); m++ {
			sum += v.worth[order[m]]
		}
		for _, i := range order[n:m] {
			v.worth[i] = sum / float64(m-n)
		}
		n = m
	}
	each := max(1, devices/max(1, len(order)))
	sum := 0.0
	for _, i := range order {
		j := d.jobs[i]
		v.worth[i] *= ownWeight(j) / goodput.Default(max(1, devices))
		sum += j.StartCost(j.Sizes[0]).Seconds() + work(j)/goodput.Default(min(each, fullSize(j)))
	}
	v.horizon = min(flowtimeHorizon.Seconds(), 2*sum/float64(max(1, len(order))))
	return v
}

// knownEquals reports whether as much is known to be left of two jobs, by their weights.
func (d *draft) knownEquals(i, k int) bool {
	return !d.guessed[i] && !d.guessed[k] && weightedWork(d.jobs[i]) == weightedWork(d.jobs[k])
}

// of is what size k of job i is worth over the horizon, and the device time that it takes.
// At its present size it goes on with the batch that it has, or starts again with the best one.
func (v valuation) of(i, k int) (worth, use float64) {
	j := v.d.jobs[i]
	if k != j.Workers {
		return v.by(i, k, v.cost(j, k), speedAt(j, k))
	}
	worth, use = v.by(i, k, 0, staying(j))
	if v.rebatch(i) {
		return v.by(i, k, rebatchCost(j), speedAt(j, k))
	}
	return worth, use
}

// rebatch reports whether it is worth its cost to start a running job again at its
// size, with the best batch for it. No promise is planned with such a start.
func (v valuation) rebatch(i int) bool {
	j := v.d.jobs[i]
	if j.Workers < 1 || !(j.Staying > 0) || v.d.states[i].fixed || j.Promise != nil {
		return false
	}
	stays, _ := v.by(i, j.Workers, 0, j.Staying)
	again, _ := v.by(i, j.Workers, rebatchCost(j), speedAt(j, j.Workers))
	return again > stays
}

// rebatchCost is what it counts to start a running job again at its size.
func rebatchCost(j allocator.JobView) float64 {
	return flowtimeBatchCharge * j.StartCost(j.Workers).Seconds()
}

// staying is the speed of a running job that is left alone.
func staying(j allocator.JobView) float64 {
	if j.Staying > 0 {
		return j.Staying
	}
	return speedAt(j, j.Workers)
}

// cost is what a start with k workers counts.
func (v valuation) cost(j allocator.JobView, k int) float64 {
	cost := j.StartCost(k).Seconds()
	if j.Workers > 0 {
		return max(cost, min(flowtimeCharge*cost, flowtimeDearest*v.horizon))
	}
	return cost
}

// by is what k workers are worth to job i at a speed, after a time without training.
func (v valuation) by(i, k int, cost, speed float64) (worth, use float64) {
	j := v.d.jobs[i]
	left := work(j)
	ends := cost + left/speed
	if ends >= v.horizon {
		return v.worth[i] * speed * max(0, v.horizon-cost), float64(k) * v.horizon
	}
	return float64(v.worth[i]*left) + float64(flowtimeFree*ownWeight(j)*(v.horizon-ends)), float64(k) * ends
}

// chooseSizes gives each of the jobs, which have their smallest sizes, what is worth most to it.
func (d *draft) chooseSizes(devices int, running []int) {
	v := valueWork(d, running, devices)
	d.rebatched = map[int]bool{}
	var jobs []priced
	free := max(0, d.idle)
	for _, i := range running {
		p := priced{job: i}
		for _, k := range d.jobs[i].Sizes {
			if k > d.devices.UsableFor(d.jobs[i]) {
				break
			}
			worth, use := v.of(i, k)
			p.options = append(p.options, option{k, worth, use, k == d.jobs[i].Workers})
		}
		free += d.counts[i]
		if len(p.options) > 0 {
			jobs = append(jobs, p)
		}
	}
	price := priceFor(jobs, free)
	for _, p := range jobs {
		d.upTo(p.job, d.jobs[p.job].Sizes, p.at(price))
	}
	// What no choice takes goes where it gains most.
	d.distribute(running, func(i, from, to int) float64 {
		low, _ := v.of(i, from)
		high, _ := v.of(i, to)
		return high - low
	})
	for _, i := range running {
		d.rebatched[i] = d.counts[i] == d.jobs[i].Workers && v.rebatch(i)
	}
}
