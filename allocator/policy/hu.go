package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/solve"
)

// hu is the optimal resource allocator of Hu et al., "An Optimal Resource
// Allocator of Elastic Training for Deep Learning Jobs on Cloud", section 4: a
// rolling horizon of huSteps steps. It chooses a number of devices
// for every job and step so that the sum over jobs and steps of the fraction of
// the job's work done by then is largest (equation 1 under 2, 5, 6 and 15
// to 20), and puts the first step in force. Package solve finds that optimum,
// mostly with proof, and always with a certified bound.
//
// What the paper leaves open is read as follows:
//
//   - Served demand is cumulative, so the objective is the area under the
//     fraction-done curves: the shortest remaining jobs are preferred, and long
//     ones are protected by their least number alone.
//   - Every job has its smallest size at least, waiting ones too (equation 15),
//     as long as there are devices enough for that. With more jobs than devices
//     the problem is infeasible as printed: then a running job keeps its smallest
//     size or more, and a waiting one may go on waiting (count 0).
//   - A job keeps its smallest size after it has finished (equation 15); where
//     there are more jobs than devices, one that waits now and would finish inside
//     the horizon gives it back.
//   - Between two intervals idle devices go to waiting jobs at once (section 2):
//     as the same optimum divides them. The paper gives the first in the queue as
//     many as possible; with more jobs than devices every freed device then goes
//     to one job after the other, which undoes the optimum and is hardly better
//     than greedy (docs/policies.md); otherwise it makes no difference.
//   - A job whose remaining time is unknown is assumed to have as much work ahead
//     as behind it, and unknownWork at least.
//   - After a loss of devices the latest jobs go back to waiting if not all of
//     the running ones can have their smallest size.
//
// A cluster differs from the paper in its interval, in its jobs, some of which end
// within a step, and in what a start costs; see huTerms.
type hu struct {
	keepsPromises
	HuOptions
}

// HuOptions are how simulations use policy hu; the zero value is how clusters do.
type HuOptions struct {
	// Published keeps to the paper: steps of five minutes, the same cost of a change for all jobs, no memory.
	Published bool
	// Solver answers in package solve's place; nil = package solve's. It must not return an error.
	Solver HuSolver
}

// HuSolver finds a plan for one of hu's problems. The policy trusts the plan, which
// has to be one that solve.Eval accepts. The problem belongs to the caller.
type HuSolver func(p *solve.Problem, o solve.Options) (solve.Result, error)

// Hu is the policy hu with options.
func Hu(o HuOptions) allocator.Policy { return hu{HuOptions: o} }

const (
	huSteps = 5
	// huStep is the length of a step where the interval is not known; the paper's is
	// its interval, which is five minutes (section 5.1).
	huStep = 5 * time.Minute
	// huStick is the least that a change must gain, so that equal plans are decided for the
	// present allocation: this much of one job's work, for one step. As published it
	// is all that a change costs.
	huStick = 2e-4
	// huSizes bounds the sizes that are considered: 0 and the powers of two
	// below 2^15, far more than a step of five minutes can need.
	huSizes = 16
)

// Name implements allocator.Policy.
func (hu) Name() string { return "hu" }

func (hu) leavesIdle() {}

func (hu) movesAgain() {}

// Allocate implements allocator.Policy.
func (h hu) Allocate(in allocator.Input) allocator.Output {
	d := newDraft(in)
	order := d.queue()
	free, movable := d.clearMovable()
	d.keepPromises(movable)
	terms := h.terms(d, movable)
	p, sizes := terms.problem(d, free, movable)
	var s solve.Solver
	find := s.Solve
	if h.Solver != nil {
		find = h.Solver
	}
	r, err := find(p, solve.Options{Prices: h.remembered(in)})
	if err != nil {
		// The problem is made here, of numbers that are checked here: an error is a bug here.
		panic(fmt.Sprintf("policy hu: %v", err))
	}
	for n, i := range movable {
		d.upTo(i, sizes[n], r.Plan[n*huSteps])
	}
	d.startFitting(order)
	for i, j := range d.jobs {
		if d.counts[i] != j.Workers {
			d.why[i] = fmt.Sprintf("most progress of all jobs in the next %s", terms.horizon())
		}
	}
	out := d.answer()
	out.Value, out.Bound = r.Value, r.Bound
	out.Memory = h.remember(in, r.Prices)
	return out
}

// huMemory is what hu remembers.
type huMemory struct {
	Prices []float64 `json:"prices"` // of a device in each step, of the last problem of all jobs
}

// remembered are the prices to begin with: they make the answer cheaper. Between two
// intervals the problem is of waiting jobs and idle devices alone, which has others.
func (h hu) remembered(in allocator.Input) []float64 {
	var m huMemory
	if h.Published || in.Between || json.Unmarshal(in.Memory, &m) != nil {
		return nil
	}
	return m.Prices
}

// remember keeps the prices for the next question of all jobs.
func (h hu) remember(in allocator.Input, prices []float64) []byte {
	switch {
	case h.Published:
		return nil
	case in.Between:
		return in.Memory
	}
	memory, err := json.Marshal(huMemory{prices})
	if err != nil {
		return nil // a price that is not finite is no beginning
	}
	return memory
}

// huTerms are what a problem is made with.
type huTerms struct {
	step      float64 // seconds
	published bool
}

// huStarts is how many starts a horizon lasts at least: a change must have time to gain what it costs.
const huStarts = 10

// terms fit the steps to the cluster. A decision is in force for an interval, so that this is
// the step, as in the paper. It is longer where the horizon would be too short
// for what the jobs' starts cost.
func (h hu) terms(d *draft, movable []int) huTerms {
	if h.Published {
		return huTerms{step: huStep.Seconds(), published: true}
	}
	step, starts := cmp.Or(max(0, d.in.Interval), huStep).Seconds(), 0.0
	for _, i := range movable {
		j := d.jobs[i]
		starts += j.StartCost(j.Sizes[0]).Seconds()
	}
	if len(movable) > 0 {
		step = max(step, huStarts*starts/float64(len(movable)*huSteps))
	}
	return huTerms{step: step}
}

// horizon is its length in words.
func (t huTerms) horizon() string {
	if seconds := math.Round(huSteps * t.step); seconds < 120 {
		return fmt.Sprintf("%.0f seconds", seconds)
	}
	return fmt.Sprintf("%.0f minutes", huSteps*t.step/60)
}

// value is what a job's speed counts for, as a speed: in the objective only what is
// done at the end of a step counts. To a job that would end within it that is all at any
// size, so that it would never have more than its smallest. So the mean over the
// next two steps of the fraction done counts, where the job ends in them: with u the
// fraction of its work that it does in a step, 1 − 1/(4u) for u > 1/2 in place of u.
// The two meet with the same slope, and what was concave stays so.
func (t huTerms) value(work, speed float64) float64 {
	if u := speed * t.step / work; !t.published && u > 0.5 {
		return (1 - 1/(4*u)) * work / t.step
	}
	return speed
}

// bonus is what it is worth to a job to keep its size: the start that a change
// costs, at the least, delays all that it does from then on, in each step until it ends.
func (t huTerms) bonus(j allocator.JobView, sizes []int) float64 {
	if t.published || j.Workers == 0 {
		return huStick
	}
	cost := math.Inf(1)
	for _, k := range sizes {
		if k != j.Workers {
			cost = min(cost, j.StartCost(k).Seconds())
		}
	}
	if math.IsInf(cost, 1) {
		return huStick
	}
	return max(huStick, cost/max(t.step, work(j)/speedAt(j, j.Workers)/huSteps))
}

// pays reports whether a running job gains by growing to a size within the horizon, its own start paid.
func (t huTerms) pays(j allocator.JobView, size int) bool {
	if t.published || j.Workers == 0 || size <= j.Workers {
		return true
	}
	horizon, cost, left := huSteps*t.step, j.StartCost(size).Seconds(), work(j)
	now, then := speedAt(j, j.Workers), speedAt(j, size)
	if left <= now*horizon {
		return cost+left/then < left/now
	}
	return then*(horizon-cost) > now*horizon
}

// queue is the order of the jobs in the draft.
func (d *draft) queue() []int {
	order := make([]int, len(d.jobs))
	for i := range order {
		order[i] = i
	}
	return order
}

// clearMovable takes the devices from all jobs that may be given another number.
// Fixed jobs keep theirs, and so do jobs on devices that no other job could use:
// moving them would only cost. It returns how many devices that frees, and the jobs.
func (d *draft) clearMovable() (free int, movable []int) {
	for i, s := range d.states {
		if s.fixed || s.stays && s.held < d.counts[i] {
			continue
		}
		d.set(i, 0)
		movable = append(movable, i)
	}
	return max(d.idle, 0), movable
}

// problem makes the problem for the solver. sizes are, beside movable, those that
// each job may have: the problem offers every job all counts in its range, those
// that are not among its sizes at the speed of the size below.
func (t huTerms) problem(d *draft, free int, movable []int) (p *solve.Problem, sizes [][]int) {
	p = &solve.Problem{Devices: free, Steps: huSteps, Step: t.step, Counts: []int{0}}
	for k := 1; k <= free && len(p.Counts) < huSizes; k *= 2 {
		p.Counts = append(p.Counts, k)
	}
	p.Counts = withListed(d, p.Counts, free, movable)
	top := p.Counts[len(p.Counts)-1]
	least, all := 0, d.leastOf(movable) <= free
	for _, i := range movable {
		j := d.jobs[i]
		var can []int
		for _, k := range j.Sizes {
			if k <= min(top, d.devices.UsableFor(j)) && t.pays(j, k) {
				can = append(can, k)
			}
		}
		sizes = append(sizes, can)
		job := solve.Job{Work: work(j), Present: countFor(p.Counts, j.Workers), Bonus: t.bonus(j, can), Speeds: t.speeds(j, can, p.Counts)}
		if len(can) > 0 {
			job.Max = countFor(p.Counts, can[len(can)-1])
			if low := countFor(p.Counts, can[0]); (all || j.Workers > 0) && least+low <= free {
				job.Min = low
				least += low
			}
		}
		p.Jobs = append(p.Jobs, job)
	}
	return p, sizes
}

// leastOf is how many devices it takes to run each of the jobs that its nodes can
// run at all.
func (d *draft) leastOf(jobs []int) int {
	n := 0
	for _, i := range jobs {
		if least := d.smallest(i); least <= d.devices.UsableFor(d.jobs[i]) {
			n += least
		}
	}
	return n
}

// withListed adds to the counts the listed sizes of jobs that are not powers of
// two, as many as the solver's tables take.
func withListed(d *draft, counts []int, free int, movable []int) []int {
	for _, i := range movable {
		for _, k := range d.jobs[i].Sizes {
			at, found := slices.BinarySearch(counts, k)
			if !found && k <= free && len(counts) < huSizes {
				counts = slices.Insert(counts, at, k)
			}
		}
	}
	return counts
}

// countFor is the least of the counts that is not below a size; the last if all are.
func countFor(counts []int, size int) int {
	at, _ := slices.BinarySearch(counts, size)
	return counts[min(at, len(counts)-1)]
}

// speeds is what the job's speed counts for at each of the counts, never falling: that of the
// best of its sizes that are not above the count.
func (t huTerms) speeds(j allocator.JobView, can, counts []int) []float64 {
	left := work(j)
	speeds := make([]float64, len(counts))
	next := 0
	for n, c := range counts {
		if n > 0 {
			speeds[n] = speeds[n-1]
		}
		for ; next < len(can) && can[next] <= c; next++ {
			speeds[n] = max(speeds[n], t.value(left, speedAt(j, can[next])))
		}
	}
	return speeds
}
