package sim

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

// ElasticFlow are the conventions of the ElasticFlow simulator (Gu et al.,
// ASPLOS 2023), for the policies that its authors compare with:
//
//   - Times are whole seconds. Decisions are made where a job comes or is
//     forecast to end, but a slot apart at least; what comes in between waits,
//     and who ends in between ends then, its devices idle until the decision.
//   - A job's batch is fixed, its speed the one that was measured for it on as
//     many devices, even where that is less than on fewer.
//   - edf is elastic: in the order of their deadlines, each job gets as many
//     devices as its speed was measured on, or the most that are left. Nothing
//     is lost at a start.
//   - edf-admission is the same, but drops a job, when it comes, for which the
//     plan of all jobs would break a deadline. Every running job loses time at
//     each decision: less where just these devices have served one job before.
//   - tiresias gives each job the devices its user asked for, in three queues
//     that device time separates; a start costs what comes off the job's time
//     at the decision after, if it has not ended by then.
//   - gandiva deals the nodes out to the sizes that jobs ask for, and jobs of one
//     size take turns on them each minute.
//   - A deadline is kept by an end at or before it; who is dropped has not kept it.
type ElasticFlow struct {
	policy   elasticFlowPolicy
	slot     int
	machines Machines
	jobs     []*elasticFlowJob
	next     int // when the next decision is due
	over     bool
	rounds   int // decisions so far
}

// elasticFlowPolicy is one of the simulator's loops.
type elasticFlowPolicy interface {
	// decide does all that its simulator does at one moment, and says when the
	// next one is; false if there is none.
	decide(now int) (next int, more bool, err error)
}

type elasticFlowJob struct {
	index    int
	asked    int // devices
	most     int
	rates    []float64 // steps per second on 1, 2, 4, … devices
	submit   int
	deadline int
	took     int     // seconds, on the devices asked for
	left     float64 // steps
	devices  int     // now
	planned  int     // and after the plan being made
	end      int     // as forecast
	newEnd   int
	overhead int // seconds of the next stretch in which nothing is trained
	started  bool
	leaves   bool // ends before the next decision
	refused  bool // and its owner is still to be told
	gone     bool
	cached   bool
	executed int // seconds
	checked  int
	list     int
}

// rate is the speed on a power of two.
func (j *elasticFlowJob) rate(devices int) float64 { return j.rates[bits.Len(uint(devices))-1] }

// elasticFlowWidest is how many devices its simulator lets one job have.
const elasticFlowWidest = 64

// ElasticFlowPolicies names the policies that ElasticFlow has rules for.
func ElasticFlowPolicies() []string { return []string{"edf", "edf-admission", "tiresias", "gandiva"} }

// ElasticFlowSetup is a cluster whose decisions are Slot apart at least, and the
// speeds measured on the devices of one kind (all, if Device is empty).
type ElasticFlowSetup struct {
	Machines
	Slot    time.Duration
	Profile trace.Profile
	Device  string
}

// NewElasticFlow makes the rules for one of ElasticFlowPolicies, and the jobs of a trace as they see them.
func NewElasticFlow(policy string, f trace.File, in ElasticFlowSetup) (*ElasticFlow, []Job, error) {
	on, slot := in.Machines, in.Slot
	e := &ElasticFlow{slot: int(slot / time.Second), machines: on}
	if slot < time.Second || slot%time.Second != 0 {
		return nil, nil, fmt.Errorf("an interval of %v: the rules elasticflow count whole seconds", slot)
	}
	if n := on.devices(); bits.OnesCount(uint(n)) != 1 && n < elasticFlowWidest || bits.OnesCount(uint(on.DevicesPerNode)) != 1 {
		return nil, nil, fmt.Errorf("%d nodes of %d devices: the rules elasticflow need a power of two on each node, and in all if they are fewer than %d",
			on.Nodes, on.DevicesPerNode, elasticFlowWidest)
	}
	var jobs []Job
	for i, a := range f.Arrivals {
		x, err := newElasticFlowJob(i, in, a)
		rigid := policy == "tiresias" || policy == "gandiva"
		if err == nil && rigid && x.asked > on.devices() {
			err = fmt.Errorf("it asks for %d devices and the cluster has %d: use more nodes", x.asked, on.devices())
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		e.jobs = append(e.jobs, x)
		jobs = append(jobs, x.job(a, rigid, on.devices()))
	}
	if len(e.jobs) > 0 {
		e.next = e.jobs[0].submit
	}
	switch policy {
	case "edf":
		e.policy = newElasticFlowEDF(e, false)
	case "edf-admission":
		e.policy = newElasticFlowEDF(e, true)
	case "tiresias":
		e.policy = newElasticFlowTiresias(e)
	case "gandiva":
		e.policy = newElasticFlowGandiva(e)
	default:
		return nil, nil, fmt.Errorf("policy %q: the rules elasticflow know %s", policy, strings.Join(ElasticFlowPolicies(), ", "))
	}
	return e, jobs, nil
}

func (m Machines) devices() int { return m.Nodes * m.DevicesPerNode }

func newElasticFlowJob(index int, in ElasticFlowSetup, a trace.Arrival) (*elasticFlowJob, error) {
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
	x := &elasticFlowJob{
		index: index, asked: a.Workers, submit: int(a.Submit / time.Second), deadline: int(a.Deadline / time.Second),
		took: int(a.Duration / time.Second), left: float64(a.Iterations),
	}
	for _, p := range curve {
		x.rates = append(x.rates, p.Rate)
	}
	x.most = min(curve[len(curve)-1].Workers, elasticFlowWidest, a.BatchSize)
	if largest := elasticFlowGroups[len(elasticFlowGroups)-1]; bits.OnesCount(uint(x.most)) != 1 || bits.OnesCount(uint(x.asked)) != 1 || x.asked > largest {
		return nil, fmt.Errorf("batch %d on %d devices: the rules elasticflow need powers of two, and %d devices at most", a.BatchSize, x.asked, largest)
	}
	return x, nil
}

// job is the job as the coordinator gets it: its work is what its steps take on one device.
func (j *elasticFlowJob) job(a trace.Arrival, rigid bool, devices int) Job {
	out := Job{Arrival: a, MinWorkers: 1, MaxWorkers: min(j.most, devices), Work: duration(j.left / j.rates[0])}
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
func (e *ElasticFlow) Workers(index int) int {
	if j := e.jobs[index]; !j.gone {
		return j.devices
	}
	return 0
}

// Instant implements Rules.
func (e *ElasticFlow) Instant(s *State) {
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

// restarts reports whether everything is started anew in this round, as often as a slot has seconds.
func (e *ElasticFlow) restarts() bool { return e.rounds > 0 && e.rounds%e.slot == 0 }

// startCost is what its simulator takes a start to cost, in seconds: more in
// large clusters, more where all trainers are restarted, little where the same
// devices have been set up before.
func (e *ElasticFlow) startCost(devices int, restart, cached bool) int {
	const large = 256
	cost := 2
	if e.machines.devices() >= large {
		cost = 7
	}
	if cached {
		return cost
	}
	if restart {
		cost += 27
		if e.machines.devices() >= large {
			cost += 20
		}
	}
	return cost + 2*bits.Len(uint(devices))
}

func ceilSeconds(at int, seconds float64) int { return int(math.Ceil(float64(at) + seconds)) }

// aligned is the first moment, a whole number of slots after start, that is not before at.
func (e *ElasticFlow) aligned(start, at int) int { return start + ceilDiv(at-start, e.slot)*e.slot }
