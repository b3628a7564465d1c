package elasticflow

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Rules are the conventions of the ElasticFlow simulator (Gu et al.,
// ASPLOS 2023), for its own policy and those that its authors compare it with:
//
//   - Times are whole seconds. Decisions are made where a job arrives or is
//     forecast to end, but at least a slot apart; a job that arrives in between
//     waits, and one that ends in between leaves its devices idle until the decision.
//   - A job's batch is fixed, its speed the one that was measured for it on as
//     many devices, even where that is less than on fewer.
//   - edf is elastic: in the order of their deadlines, each job gets as many
//     devices as its speed was measured on, or the most that are left. A start
//     costs nothing.
//   - edf-admission is the same, but drops a job on arrival if with it the plan
//     of all jobs would miss a deadline. Every running job loses time at each
//     decision: less where exactly these devices have served one job before.
//   - elasticflow plans all jobs anew at each decision, by their deadlines, each with the
//     fewest devices that keep its own; what is left goes to the jobs whose device time
//     that raises most. It drops those that arrive if with them any job would be late.
//     Plans leave out what starts cost, and decisions charge it as for edf-admission. A job
//     has no more devices than each step up is faster.
//   - tiresias gives each job the devices its user asked for, in three queues
//     that device time separates; the cost of a start is subtracted from the
//     job's time at the next decision, if it has not ended by then.
//   - gandiva divides the nodes among the sizes that jobs ask for, and jobs of one
//     size take turns on them each minute.
//   - A deadline is kept by an end at or before it; a dropped job has not kept it.
type Rules struct {
	*terms
	policy decider
	jobs   []*job
	next   int // when the next decision is due
	over   bool
}

// decider is one of the simulator's loops.
type decider interface {
	// decide does all that its simulator does at one moment, and returns when the
	// next one is; false if there is none.
	decide(now int) (next int, more bool, err error)
}

type job struct {
	index    int
	asked    int       // devices
	most     int       // devices that it can use
	rates    []float64 // steps per second on 1, 2, 4, … devices
	submit   int
	deadline int
	took     int     // seconds, on the devices asked for
	left     float64 // steps
	devices  int     // now
	planned  int     // devices in the plan being made
	end      int     // as forecast
	newEnd   int     // in the plan being made
	overhead int     // seconds of the next stretch in which it does not train
	started  bool
	leaves   bool // ends before the next decision
	refused  bool // and not yet reported to its owner
	gone     bool // ended or refused
	cached   bool // its devices have served one job together before
	executed int  // seconds
	counted  int  // the time up to which executed is counted
	list     int  // the queue of tiresias that it is in
	share    *share
}

// rate is the speed on a power of two.
func (j *job) rate(devices int) float64 { return j.rates[bits.Len(uint(devices))-1] }

// widest is how many devices its simulator lets one job have.
const widest = 64

// Policies names the policies that New knows.
func Policies() []string {
	return []string{"edf", "edf-admission", "elasticflow", "tiresias", "gandiva"}
}

// Setup is a cluster whose decisions are at least Slot apart, and the speeds
// measured on devices of one kind (all, if Device is empty).
type Setup struct {
	sim.Machines
	Slot    time.Duration
	Profile trace.Profile
	Device  string
}

// New makes the rules for one of Policies, and the jobs of a trace as they see them.
func New(policy string, f trace.File, in Setup) (*Rules, []sim.Job, error) {
	on := in.Machines
	e := &Rules{terms: in.terms()}
	if err := in.check(); err != nil {
		return nil, nil, err
	}
	var jobs []sim.Job
	for i, a := range f.Arrivals {
		x, err := newJob(i, in, a)
		rigid := policy == "tiresias" || policy == "gandiva"
		if err == nil && rigid && x.asked > on.Devices() {
			err = fmt.Errorf("it asks for %d devices and the cluster has %d: use more nodes", x.asked, on.Devices())
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		e.jobs = append(e.jobs, x)
		jobs = append(jobs, x.job(a, rigid, on.Devices()))
	}
	if len(e.jobs) > 0 {
		e.next = e.jobs[0].submit
	}
	switch policy {
	case "edf":
		e.policy = newEDF(e.terms, e.jobs, false)
	case "edf-admission":
		e.policy = newEDF(e.terms, e.jobs, true)
	case "elasticflow":
		for i, a := range f.Arrivals {
			e.jobs[i].most = in.useful(a, e.jobs[i])
		}
		e.policy = newFilling(e.terms, e.jobs)
	case "tiresias":
		e.policy = newTiresias(e.terms, e.jobs)
	case "gandiva":
		e.policy = newGandiva(e.terms, e.jobs, e.next)
	default:
		return nil, nil, fmt.Errorf("policy %q: the rules elasticflow know %s", policy, strings.Join(Policies(), ", "))
	}
	return e, jobs, nil
}

// check returns what the rules cannot be with.
func (in Setup) check() error {
	if in.Slot < time.Second || in.Slot%time.Second != 0 {
		return fmt.Errorf("an interval of %v: the rules elasticflow count whole seconds", in.Slot)
	}
	if n := in.Devices(); bits.OnesCount(uint(n)) != 1 && n < widest || bits.OnesCount(uint(in.DevicesPerNode)) != 1 {
		return fmt.Errorf("%d nodes of %d devices: the rules elasticflow need a power of two on each node, and in all if they are fewer than %d",
			in.Nodes, in.DevicesPerNode, widest)
	}
	return nil
}

func (in Setup) terms() *terms {
	return &terms{slot: int(in.Slot / time.Second), on: in.Machines}
}

// Terms are the simulator's conventions for policies of production, and the jobs of a
// trace as these get them: measured speeds, decisions a slot apart, and what a start
// costs. The restart of all trainers every so many rounds is left out, and no devices count as
// set up before. Rigid jobs have the devices that their users asked for.
func Terms(f trace.File, in Setup, rigid bool) ([]sim.Job, sim.Terms, error) {
	if err := in.check(); err != nil {
		return nil, sim.Terms{}, err
	}
	var jobs []sim.Job
	for i, a := range f.Arrivals {
		x, err := newJob(i, in, a)
		if err != nil {
			return nil, sim.Terms{}, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		jobs = append(jobs, x.job(a, rigid, in.Devices()))
	}
	t := in.terms()
	return jobs, sim.Terms{
		Apart: in.Slot,
		StartCost: func(_ sim.Job, workers int) time.Duration {
			return time.Duration(t.startCost(workers, false, false)) * time.Second
		},
	}, nil
}

func newJob(index int, in Setup, a trace.Arrival) (*job, error) {
	if a.Deadline == 0 || a.Iterations == 0 || a.Duration == 0 {
		return nil, fmt.Errorf("it has no deadline, iterations or duration: the rules elasticflow need a trace of that simulator")
	}
	for _, t := range []time.Duration{a.Submit, a.Deadline, a.Duration} {
		if t%time.Second != 0 {
			return nil, fmt.Errorf("a time of %v: the rules elasticflow count whole seconds", t)
		}
	}
	curve, err := in.Profile.Curve(in.Device, a.Model, a.BatchSize)
	if err != nil {
		return nil, err
	}
	x := &job{
		index: index, asked: a.Workers, submit: int(a.Submit / time.Second), deadline: int(a.Deadline / time.Second),
		took: int(a.Duration / time.Second), left: float64(a.Iterations),
	}
	for _, p := range curve {
		x.rates = append(x.rates, p.Rate)
	}
	x.most = min(curve[len(curve)-1].Workers, widest, a.BatchSize)
	if largest := groupSizes[len(groupSizes)-1]; bits.OnesCount(uint(x.most)) != 1 || bits.OnesCount(uint(x.asked)) != 1 || x.asked > largest {
		return nil, fmt.Errorf("batch %d on %d devices: the rules elasticflow need powers of two, and %d devices at most", a.BatchSize, x.asked, largest)
	}
	return x, nil
}

// job is the job as the coordinator gets it: its work is what its steps take on one device.
func (j *job) job(a trace.Arrival, rigid bool, devices int) sim.Job {
	out := sim.Job{Arrival: a, MinWorkers: 1, MaxWorkers: min(j.most, devices), Work: sim.Seconds(j.left / j.rates[0])}
	if rigid {
		out.MinWorkers, out.MaxWorkers = j.asked, j.asked
	}
	out.ETA = out.Work
	for _, r := range j.rates {
		out.Speed = append(out.Speed, r/j.rates[0])
	}
	return out
}

// Workers implements Rules.
func (e *Rules) Workers(index int) int {
	if j := e.jobs[index]; !j.gone {
		return j.devices
	}
	return 0
}

// Instant implements Rules.
func (e *Rules) Instant(s *sim.State) {
	for _, i := range s.Ended {
		e.jobs[i].gone = true
	}
	for !e.over && s.Err == nil && time.Duration(e.next)*time.Second <= s.Now {
		var more bool
		e.next, more, s.Err = e.policy.decide(e.next)
		e.over = !more
		e.rounds++
	}
	for _, j := range e.jobs {
		if j.refused {
			j.refused, j.gone = false, true
			s.Refused = append(s.Refused, j.index)
		}
		if j.leaves && !j.gone {
			s.Ends[j.index] = time.Duration(j.end) * time.Second
		}
	}
	if !e.over {
		s.Again = time.Duration(e.next) * time.Second
	}
}

// terms are what all loops of the simulator share.
type terms struct {
	slot   int // seconds that decisions are apart at least
	on     sim.Machines
	rounds int // decisions so far
}

// restarts reports whether all jobs are restarted in this round, which happens every so many rounds as a slot has seconds.
func (t *terms) restarts() bool { return t.rounds > 0 && t.rounds%t.slot == 0 }

// startCost is what a start costs in its simulator, in seconds: more in large
// clusters, more where all trainers are restarted, less where the same devices
// have been set up before.
func (t *terms) startCost(devices int, restart, cached bool) int {
	const large = 256
	cost := 2
	if t.on.Devices() >= large {
		cost = 7
	}
	if cached {
		return cost
	}
	if restart {
		cost += 27
		if t.on.Devices() >= large {
			cost += 20
		}
	}
	return cost + 2*bits.Len(uint(devices))
}

func ceilSeconds(at int, seconds float64) int { return int(math.Ceil(float64(at) + seconds)) }

// aligned is the first moment, a whole number of slots after start, that is not before at.
func (t *terms) aligned(start, at int) int { return start + ceilDiv(at-start, t.slot)*t.slot }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
