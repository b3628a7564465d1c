package muri

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Rules are the conventions of the Muri simulator (Zhao et al., SIGCOMM 2022),
// for those of its policies that share no devices between jobs:
//
//   - A job has all the devices that its user asked for, or none. Its work is
//     iterations × step time × 1.015.
//   - At each event (an arrival, an end; of Tiresias also a demotion) all jobs
//     are placed again, in the policy's order. A job that does not fit is skipped.
//   - At each event every running job loses the start overhead of its model
//     again, whether it was moved or not, but not more than it did since the
//     event before. Ends are forecast without it, so a job that no event
//     interrupts before its end does not pay it.
//   - Nodes are filled from the first; a job larger than a node has whole nodes.
type Rules struct {
	order    func(m *Rules)
	overhead trace.Overhead
	on       sim.Machines
	byCount  bool // a job fits if enough devices are free, on any nodes (Tiresias)

	jobs  map[int]*job
	queue []*job // all that arrived and have not ended, in their present order
	lists [3][]*job
	// Ends and the next demotion as they were forecast, in seconds. Virtual time
	// is in whole nanoseconds, and a job looked at that little too early is not demoted.
	ends     map[int]float64
	demotion float64
}

type job struct {
	index    int
	workers  int
	overhead float64
	step     float64 // seconds
	left     float64 // steps
	counted  float64 // the time up to which its work is counted
	executed float64
	list     int
	running  bool
}

// remaining is the work left in seconds, as its simulator multiplies it.
func (j *job) remaining() float64 { return j.left * j.step }

// stretch is the factor by which its authors lengthen each measured step.
const stretch = 1.015

// defaultOverhead is the start overhead of a model that the table does not name, in seconds.
const defaultOverhead = 10

// limits are the device seconds at which Tiresias demotes a job.
var limits = [...]float64{3250, 7200}

// Policies names the policies that New knows.
func Policies() []string { return []string{"srtf", "srsf", "tiresias"} }

// Setup is what the rules need besides a trace.
type Setup struct {
	sim.Machines
	Overhead trace.Overhead // of a start, by model and number of devices
	Model    sim.Model      // of the jobs; they are rigid in any case
}

// New makes the rules for one of Policies, and the jobs of a trace as they see them.
func New(policy string, f trace.File, in Setup) (*Rules, []sim.Job, error) {
	m := &Rules{overhead: in.Overhead, on: in.Machines, jobs: map[int]*job{}, ends: map[int]float64{}}
	switch policy {
	case "srtf":
		m.order = func(m *Rules) { m.shortest(func(j *job) float64 { return j.remaining() }) }
	case "srsf":
		m.order = func(m *Rules) {
			m.shortest(func(j *job) float64 { return j.remaining() * float64(j.workers) })
		}
	case "tiresias":
		m.order = func(m *Rules) { m.byService() }
		m.byCount = true
	default:
		return nil, nil, fmt.Errorf("policy %q: the rules muri know %s", policy, strings.Join(Policies(), ", "))
	}
	jobs, err := in.jobs(f)
	return m, jobs, err
}

// jobs are those of a trace, rigid and as long as Muri's simulator has them.
func (in Setup) jobs(f trace.File) ([]sim.Job, error) {
	f, err := withDurations(f)
	if err != nil {
		return nil, err
	}
	in.Model.Rigid = true
	return in.Model.Jobs(f)
}

// Terms are the simulator's conventions for policies of production, and the jobs of a
// trace as these get them: rigid, and each arrival and end costs every job that runs its start overhead.
func Terms(f trace.File, in Setup) ([]sim.Job, sim.Terms, error) {
	jobs, err := in.jobs(f)
	cost := func(j sim.Job, _ int) time.Duration { return sim.Seconds(overheadOf(in.Overhead, j)) }
	return jobs, sim.Terms{StartCost: cost, Toll: cost}, err
}

// overheadOf is the start overhead of a job, in seconds.
func overheadOf(table trace.Overhead, a sim.Job) float64 {
	if cost, ok := table[trace.OverheadKey{Workers: a.Workers, Model: a.Model}]; ok {
		return cost.Seconds()
	}
	return defaultOverhead
}

// Workers implements Rules.
func (m *Rules) Workers(index int) int {
	if j := m.jobs[index]; j != nil && j.running {
		return j.workers
	}
	return 0
}

// Instant implements Rules.
func (m *Rules) Instant(s *sim.State) {
	now := s.Now.Seconds()
	if m.demotion > 0 && sim.Seconds(m.demotion) == s.Now {
		now = m.demotion
	}
	for _, i := range s.Ended {
		now = m.ends[i]
		j := m.jobs[i]
		delete(m.jobs, i)
		same := func(x *job) bool { return x == j }
		m.queue = slices.DeleteFunc(m.queue, same)
		m.lists[j.list] = slices.DeleteFunc(m.lists[j.list], same)
	}
	for _, i := range s.Arrived {
		now = s.Now.Seconds()
		m.arrive(i, s.Jobs[i], now)
	}
	m.event(now)
	for m.demotion > 0 && sim.Seconds(m.demotion) <= s.Now { // later by its float, due in nanoseconds
		m.event(m.demotion)
	}
	for i, end := range m.ends {
		s.Ends[i] = sim.Seconds(end)
	}
	s.Again = sim.Seconds(m.demotion)
}

// event counts the work up to now, decides who runs and forecasts what comes next.
func (m *Rules) event(now float64) {
	for _, j := range m.queue {
		m.count(j, now)
	}
	m.order(m)
	clear(m.ends)
	m.demotion = 0
	for _, j := range m.queue {
		if !j.running {
			continue
		}
		m.ends[j.index] = now + float64(j.remaining())
		if m.byCount && j.list < len(limits) {
			at := math.Ceil(limits[j.list]/float64(j.workers)) - j.executed + now
			if m.demotion == 0 || at < m.demotion {
				m.demotion = at
			}
		}
	}
}

func (m *Rules) arrive(index int, a sim.Job, now float64) {
	j := &job{
		index: index, workers: a.Workers, overhead: overheadOf(m.overhead, a), counted: now,
		step: stepSeconds(a.Arrival), left: float64(a.Iterations),
	}
	m.jobs[index] = j
	m.queue = append(m.queue, j)
	m.lists[0] = append(m.lists[0], j)
}

// count adds what a job has done since the last event, and demotes it where Tiresias does.
func (m *Rules) count(j *job, now float64) {
	before := j.counted
	j.counted = now
	if !j.running {
		return
	}
	j.left -= max(0, now-before-j.overhead) / j.step
	j.executed = j.executed + now - before
	if j.list < len(limits) && j.executed*float64(j.workers) >= limits[j.list] {
		m.lists[j.list] = slices.DeleteFunc(m.lists[j.list], func(x *job) bool { return x == j })
		j.list++
		m.lists[j.list] = append(m.lists[j.list], j)
	}
}

// shortest runs jobs in ascending order of a key; equal ones keep their order.
func (m *Rules) shortest(key func(*job) float64) {
	slices.SortStableFunc(m.queue, func(a, b *job) int {
		switch x, y := key(a), key(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	free := make([]int, m.on.Nodes)
	for i := range free {
		free[i] = m.on.DevicesPerNode
	}
	for _, j := range m.queue {
		j.running = m.fit(free, j.workers)
	}
}

// fit takes devices from the first node that has enough, or as many whole nodes as it needs.
func (m *Rules) fit(free []int, workers int) bool {
	if workers <= m.on.DevicesPerNode {
		i := slices.IndexFunc(free, func(n int) bool { return n >= workers })
		if i >= 0 {
			free[i] -= workers
		}
		return i >= 0
	}
	var whole []int
	for i, n := range free {
		if n == m.on.DevicesPerNode && len(whole) < workers/m.on.DevicesPerNode {
			whole = append(whole, i)
		}
	}
	if len(whole) < workers/m.on.DevicesPerNode {
		return false
	}
	for _, i := range whole {
		free[i] = 0
	}
	return true
}

// byService runs jobs list by list, each in its order; jobs that wait move to the end of their list.
func (m *Rules) byService() {
	free := m.on.Devices()
	for q, list := range m.lists {
		var running, waiting []*job
		for _, j := range list {
			if j.running = free >= j.workers; j.running {
				free -= j.workers
				running = append(running, j)
			} else {
				waiting = append(waiting, j)
			}
		}
		m.lists[q] = append(running, waiting...)
	}
}

// withDurations gives each job of a trace the duration that Muri's simulator
// computes for it, instead of the one that the cluster logged.
func withDurations(f trace.File) (trace.File, error) {
	f.Arrivals = slices.Clone(f.Arrivals)
	for i, a := range f.Arrivals {
		if a.Iterations == 0 || a.IterationTime == 0 {
			return trace.File{}, fmt.Errorf("%s: job %.60q has no iterations or no iter_time_ms: the rules muri need a trace of that format", f.At(a), a.ID)
		}
		f.Arrivals[i].Duration = sim.Seconds(float64(a.Iterations) * stepSeconds(a))
	}
	return f, nil
}

// stepSeconds is the time of one step in seconds.
func stepSeconds(a trace.Arrival) float64 {
	return float64(a.IterationTime) / float64(time.Millisecond) * stretch / 1000
}
