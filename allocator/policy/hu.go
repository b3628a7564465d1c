package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/solve"
)

// hu is the optimal resource allocator of Hu et al., "An Optimal Resource
// Allocator of Elastic Training for Deep Learning Jobs on Cloud", section 4: a
// rolling horizon of huSteps steps of huStep. It chooses a number of devices
// for every job and step so that the sum over jobs and steps of the fraction of
// the job's work done by then is largest (equation 1 under 2, 5, 6 and 15
// to 20), and puts the first step in force. Package solve finds that optimum,
// mostly with proof, and always with a certified bound.
//
// How we read what the paper leaves open:
//
//   - Served demand is cumulative, so the objective is the area under the
//     fraction-done curves: the shortest remaining jobs are preferred, and long
//     ones are protected by their least number alone.
//   - Every job has its smallest size at least, waiting ones too (equation 15),
//     as long as there are devices enough for that. With more jobs than devices
//     the problem is infeasible as printed: then a running job keeps its smallest
//     size or more, and a waiting one may go on waiting (count 0).
//   - A step is five minutes, whatever the interval between decisions: the
//     paper's step is its interval, which is five minutes as well (section 5.1).
//   - A job keeps its smallest size after it has finished (equation 15); where
//     there are more jobs than devices, one that waits now and would finish inside
//     the horizon gives it back.
//   - Equal plans are decided for the present allocation: a change must gain
//     more than huStick.
//   - Between two intervals idle devices go to waiting jobs at once (section 2):
//     as the same optimum shares them out. The paper gives the first in the queue
//     as many as possible; with more jobs than devices that hands every freed
//     device to one job after the other, undoes the optimum and is hardly better
//     than greedy (docs/policies.md), and otherwise it makes no difference.
//   - A job whose remaining time is unknown is taken to have as much work ahead
//     as it has behind it, and unknownWork at least.
//   - After a loss of devices the latest jobs go back to waiting if not all of
//     the running ones can have their smallest size.
type hu struct{ solver HuSolver }

// HuSolver finds a plan for one of hu's problems. The policy trusts it as its
// own: the plan has to be one that solve.Eval takes. The problem is the caller's.
type HuSolver func(p *solve.Problem, o solve.Options) (solve.Result, error)

// Hu is the policy hu with another solver than package solve's, for simulations
// that put a reference in its place. No error may come out of it.
func Hu(s HuSolver) allocator.Policy { return hu{s} }

const (
	huSteps = 5
	huStep  = 5 * time.Minute
	huStick = 2e-4 // of one job's work, for one step: 60 ms of everything it has
	// huSizes bounds the sizes that are considered: 0 and the powers of two
	// below 2^15, far more than a step of five minutes can need.
	huSizes = 16
)

// Name implements allocator.Policy.
func (hu) Name() string { return "hu" }

func (hu) frugal() {}

func (hu) restless() {}

// Allocate implements allocator.Policy.
func (h hu) Allocate(in allocator.Input) allocator.Output {
	d := sit(in)
	order := d.queue()
	free, mine := d.clearMovable()
	p, sizes := huProblem(d, free, mine)
	var s solve.Solver
	find := s.Solve
	if h.solver != nil {
		find = h.solver
	}
	r, err := find(p, solve.Options{})
	if err != nil {
		// The problem is made here, of numbers that are checked here: it is ours to answer for.
		panic(fmt.Sprintf("policy hu: %v", err))
	}
	for n, i := range mine {
		d.upTo(i, sizes[n], r.Plan[n*huSteps])
	}
	d.startFitting(order)
	for i, j := range d.jobs {
		if d.counts[i] != j.Workers {
			d.why[i] = fmt.Sprintf("most progress of all jobs in the next %d minutes", int(huSteps*huStep/time.Minute))
		}
	}
	out := d.answer()
	out.Value, out.Bound = r.Value, r.Bound
	return out
}

// queue is the order of the jobs at the desk.
func (d *desk) queue() []int {
	order := make([]int, len(d.jobs))
	for i := range order {
		order[i] = i
	}
	return order
}

// clearMovable takes the devices from all jobs that may be given another
// number. Fixed jobs keep theirs, and so do those on devices that no other job
// could use: to move them would only cost. It returns how many devices that
// frees, and whose.
func (d *desk) clearMovable() (free int, mine []int) {
	for i, s := range d.seats {
		if s.fixed || s.stays && s.held < d.counts[i] {
			continue
		}
		d.set(i, 0)
		mine = append(mine, i)
	}
	return max(d.idle, 0), mine
}

// upTo gives job i the largest of its sizes that is at most n and fits.
func (d *desk) upTo(i int, sizes []int, n int) {
	for _, k := range slices.Backward(sizes) {
		if k <= n && d.set(i, k) {
			return
		}
	}
}

// huProblem puts the question to the solver. sizes are, beside mine, what each
// job may have: the problem offers every job all counts in its range, those
// that are not among its sizes at the speed of the size below.
func huProblem(d *desk, free int, mine []int) (p *solve.Problem, sizes [][]int) {
	p = &solve.Problem{Devices: free, Steps: huSteps, Step: huStep.Seconds(), Counts: []int{0}}
	for k := 1; k <= free && len(p.Counts) < huSizes; k *= 2 {
		p.Counts = append(p.Counts, k)
	}
	p.Counts = withListed(d, p.Counts, free, mine)
	top := p.Counts[len(p.Counts)-1]
	least, everybody := 0, d.leastOf(mine) <= free
	for _, i := range mine {
		j := d.jobs[i]
		var can []int
		for _, k := range j.Sizes {
			if k <= min(top, d.about.Open(j)) {
				can = append(can, k)
			}
		}
		sizes = append(sizes, can)
		job := solve.Job{Work: work(j), Present: countFor(p.Counts, j.Workers), Bonus: huStick, Speeds: huSpeeds(j, can, p.Counts)}
		if len(can) > 0 {
			job.Max = countFor(p.Counts, can[len(can)-1])
			if low := countFor(p.Counts, can[0]); (everybody || j.Workers > 0) && least+low <= free {
				job.Min = low
				least += low
			}
		}
		p.Jobs = append(p.Jobs, job)
	}
	return p, sizes
}

// leastOf is how many devices it takes that each of the jobs can run that its
// nodes could have room for.
func (d *desk) leastOf(jobs []int) int {
	n := 0
	for _, i := range jobs {
		if least := d.smallest(i); least <= d.about.Open(d.jobs[i]) {
			n += least
		}
	}
	return n
}

// withListed adds to the counts the sizes of jobs whose owners have listed
// others than powers of two, as many as the solver's tables take.
func withListed(d *desk, counts []int, free int, mine []int) []int {
	for _, i := range mine {
		for _, k := range d.jobs[i].Sizes {
			at, found := slices.BinarySearch(counts, k)
			if !found && k <= free && len(counts) < huSizes {
				counts = slices.Insert(counts, at, k)
			}
		}
	}
	return counts
}

// countFor is the least of the counts that makes room for a size; the last if none does.
func countFor(counts []int, size int) int {
	at, _ := slices.BinarySearch(counts, size)
	return counts[min(at, len(counts)-1)]
}

// huSpeeds is the job's speed at each of the counts, never falling: that of the
// best of its sizes for which the count makes room.
func huSpeeds(j allocator.JobView, can, counts []int) []float64 {
	speeds := make([]float64, len(counts))
	next := 0
	for n, c := range counts {
		if n > 0 {
			speeds[n] = speeds[n-1]
		}
		for ; next < len(can) && can[next] <= c; next++ {
			speeds[n] = max(speeds[n], speedAt(j, can[next]))
		}
	}
	return speeds
}

// speedAt is the job's speed at one of its sizes relative to one device:
// measured where it is known, else by the default model.
func speedAt(j allocator.JobView, size int) float64 {
	k := slices.Index(j.Sizes, size)
	if k < 0 || k >= len(j.Speeds) || !(j.Speeds[k] > 0) {
		return goodput.Default(size)
	}
	return j.Speeds[k]
}
