package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

// Muri are the conventions of the Muri simulator (Zhao et al., SIGCOMM 2022),
// for those of its policies that share no devices between jobs:
//
//   - A job has all the devices that its user asked for, or none. Its work is
//     iterations × step time × 1.015.
//   - At each event (an arrival, an end; of Tiresias also a demotion) everybody
//     is put aside and placed anew, in the policy's order. What does not fit is
//     passed over.
//   - At each event every running job loses the start overhead of its model
//     once more, whether it was moved or not, up to all it did since the event
//     before. Ends are forecast without it, so a job whose last stretch no
//     event interrupts does not pay for that.
//   - Nodes are filled from the first; more than one node's devices are whole nodes.
type Muri struct {
	order    func(m *Muri)
	overhead trace.Overhead
	nodes    int
	perNode  int
	counted  bool // fit by number of free devices alone (Tiresias)

	jobs  map[int]*muriJob
	queue []*muriJob // all that came and have not ended, in their present order
	lists [3][]*muriJob
	// Ends and demotions as they were forecast, in seconds: virtual time is in
	// whole nanoseconds, and a job demoted that little too early is not demoted.
	ends map[int]float64
	jump float64
}

type muriJob struct {
	index    int
	workers  int
	overhead float64
	step     float64 // seconds
	left     float64 // steps
	checked  float64
	executed float64
	list     int
	running  bool
}

// remaining is the work left in seconds, as its simulator multiplies it.
func (j *muriJob) remaining() float64 { return j.left * j.step }

// muriStretch is by how much its authors lengthen each measured step.
const muriStretch = 1.015

// muriOverhead is what a model costs that the table does not name, in seconds.
const muriOverhead = 10

// muriLimits are the device seconds at which Tiresias demotes a job.
var muriLimits = [...]float64{3250, 7200}

// MuriPolicies names the policies that Muri has rules for.
func MuriPolicies() []string { return []string{"srtf", "srsf", "tiresias"} }

// NewMuri makes the rules for one of MuriPolicies.
func NewMuri(policy string, overhead trace.Overhead, nodes, perNode int) (*Muri, error) {
	m := &Muri{overhead: overhead, nodes: nodes, perNode: perNode, jobs: map[int]*muriJob{}, ends: map[int]float64{}}
	switch policy {
	case "srtf":
		m.order = func(m *Muri) { m.shortest(func(j *muriJob) float64 { return j.remaining() }) }
	case "srsf":
		m.order = func(m *Muri) {
			m.shortest(func(j *muriJob) float64 { return j.remaining() * float64(j.workers) })
		}
	case "tiresias":
		m.order = func(m *Muri) { m.byService() }
		m.counted = true
	default:
		return nil, fmt.Errorf("policy %q: the rules muri know %s", policy, strings.Join(MuriPolicies(), ", "))
	}
	return m, nil
}

// Workers implements Rules.
func (m *Muri) Workers(index int) int {
	if j := m.jobs[index]; j != nil && j.running {
		return j.workers
	}
	return 0
}

// Instant implements Rules.
func (m *Muri) Instant(s *State) {
	now := s.Now.Seconds()
	if m.jump > 0 && duration(m.jump) == s.Now {
		now = m.jump
	}
	for _, i := range s.Ended {
		now = m.ends[i]
		j := m.jobs[i]
		delete(m.jobs, i)
		gone := func(x *muriJob) bool { return x == j }
		m.queue = slices.DeleteFunc(m.queue, gone)
		m.lists[j.list] = slices.DeleteFunc(m.lists[j.list], gone)
	}
	for _, i := range s.Came {
		now = s.Now.Seconds()
		m.come(i, s.Jobs[i], now)
	}
	m.event(now)
	for m.jump > 0 && duration(m.jump) <= s.Now { // what floats call later and nanoseconds do not
		m.event(m.jump)
	}
	for i, end := range m.ends {
		s.Ends[i] = duration(end)
	}
	s.Again = duration(m.jump)
}

// event counts the work up to now, decides who runs and forecasts what comes next.
func (m *Muri) event(now float64) {
	for _, j := range m.queue {
		m.count(j, now)
	}
	m.order(m)
	clear(m.ends)
	m.jump = 0
	for _, j := range m.queue {
		if !j.running {
			continue
		}
		m.ends[j.index] = now + float64(j.remaining())
		if m.counted && j.list < len(muriLimits) {
			jump := math.Ceil(muriLimits[j.list]/float64(j.workers)) - j.executed + now
			if m.jump == 0 || jump < m.jump {
				m.jump = jump
			}
		}
	}
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

func (m *Muri) come(index int, a Job, now float64) {
	j := &muriJob{
		index: index, workers: a.Workers, overhead: muriOverhead, checked: now,
		step: muriStep(a.Arrival), left: float64(a.Iterations),
	}
	if cost, ok := m.overhead[trace.OverheadKey{Workers: a.Workers, Model: a.Model}]; ok {
		j.overhead = cost.Seconds()
	}
	m.jobs[index] = j
	m.queue = append(m.queue, j)
	m.lists[0] = append(m.lists[0], j)
}

// count takes in what a job has done since the last event, and demotes it where Tiresias does.
func (m *Muri) count(j *muriJob, now float64) {
	before := j.checked
	j.checked = now
	if !j.running {
		return
	}
	j.left -= max(0, now-before-j.overhead) / j.step
	j.executed = j.executed + now - before
	if j.list < len(muriLimits) && j.executed*float64(j.workers) >= muriLimits[j.list] {
		m.lists[j.list] = slices.DeleteFunc(m.lists[j.list], func(x *muriJob) bool { return x == j })
		j.list++
		m.lists[j.list] = append(m.lists[j.list], j)
	}
}

// shortest runs jobs in the order of a key; equals keep the order they have.
func (m *Muri) shortest(key func(*muriJob) float64) {
	slices.SortStableFunc(m.queue, func(a, b *muriJob) int {
		switch x, y := key(a), key(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	free := make([]int, m.nodes)
	for i := range free {
		free[i] = m.perNode
	}
	for _, j := range m.queue {
		j.running = m.fit(free, j.workers)
	}
}

// fit takes devices from the first node that has enough, or as many whole nodes as it needs.
func (m *Muri) fit(free []int, workers int) bool {
	if workers <= m.perNode {
		i := slices.IndexFunc(free, func(n int) bool { return n >= workers })
		if i >= 0 {
			free[i] -= workers
		}
		return i >= 0
	}
	var whole []int
	for i, n := range free {
		if n == m.perNode && len(whole) < workers/m.perNode {
			whole = append(whole, i)
		}
	}
	if len(whole) < workers/m.perNode {
		return false
	}
	for _, i := range whole {
		free[i] = 0
	}
	return true
}

// byService runs jobs list by list, each in its order; those that wait go to the end of theirs.
func (m *Muri) byService() {
	free := m.nodes * m.perNode
	for q, list := range m.lists {
		var running, waiting []*muriJob
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

// MuriTrace gives each job of a trace the duration that Muri's simulator
// computes for it, in place of the one that the cluster logged.
func MuriTrace(f trace.File) (trace.File, error) {
	f.Arrivals = slices.Clone(f.Arrivals)
	for i, a := range f.Arrivals {
		if a.Iterations == 0 || a.IterationTime == 0 {
			return trace.File{}, fmt.Errorf("%s: job %.60q has no iterations or no iter_time_ms: the rules muri need a trace of that format", f.At(a), a.ID)
		}
		f.Arrivals[i].Duration = duration(float64(a.Iterations) * muriStep(a))
	}
	return f, nil
}

// muriStep is the time of one step in seconds.
func muriStep(a trace.Arrival) float64 {
	return float64(a.IterationTime) / float64(time.Millisecond) * muriStretch / 1000
}
