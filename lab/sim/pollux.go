package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Pollux are the conventions of the Pollux simulator (Qiao et al., OSDI 2021),
// for the two policies that its authors compare with, both with tuned jobs:
//
//   - Decisions are made once a minute, in whole seconds. Jobs that end in
//     between leave their devices idle until then.
//   - A job's batch is its user's. Its progress is counted in steps at its
//     model's first batch, of which a step at a larger one is worth several,
//     as measured; an epoch's end is rounded to whole seconds.
//   - Steps take as long as was measured on the same placement, and every new
//     placement costs 30 s.
//   - tiresias gives each job the workers its user asked for, in two queues that
//     device time separates; optimus adds workers one by one where they shorten
//     the remaining time most, knowing the true times. Both fill the emptiest
//     node first.
type Pollux struct {
	decide func(p *Pollux, active []*polluxJob) error
	jobs   []*polluxJob // in the order of the trace
	free   []int        // devices of each node that nobody has
	device int          // on each node
	now    int          // seconds
	queues [2][]*polluxJob
}

type polluxJob struct {
	index   int
	model   *polluxModel
	batch   int
	workers int // that its user asked for
	most    int

	came, ended bool
	end         int // when it will end in this round; 0 = not
	nodes       []int
	placement   []int
	atomic      int
	accumulated int
	pause       int
	progress    float64
	epoch       int

	queued  bool // tiresias knows it
	running bool
	checked int
	service int
}

const (
	polluxRound = 60 // seconds between decisions
	polluxPause = 30 // seconds that a new placement costs
	// polluxDemotion is the device time at which tiresias puts a job into the second queue.
	polluxDemotion = 16 * 3600
)

// PolluxPolicies names the policies that Pollux has rules for.
func PolluxPolicies() []string { return []string{"tiresias", "optimus"} }

// Machines are the cluster that rules place jobs on by themselves.
type Machines struct{ Nodes, DevicesPerNode int }

// NewPollux makes the rules for one of PolluxPolicies, and the jobs of a trace as they see them.
func NewPollux(policy string, models trace.PolluxModels, f trace.File, on Machines) (*Pollux, []Job, error) {
	p := &Pollux{device: on.DevicesPerNode, free: make([]int, on.Nodes)}
	switch policy {
	case "tiresias":
		p.decide = (*Pollux).tiresias
	case "optimus":
		p.decide = (*Pollux).optimus
	default:
		return nil, nil, fmt.Errorf("policy %q: the rules pollux know %s", policy, strings.Join(PolluxPolicies(), ", "))
	}
	if on.Nodes*on.DevicesPerNode > cluster.MaxSizes || on.DevicesPerNode > 4 {
		return nil, nil, fmt.Errorf("%d nodes of %d devices: the rules pollux have measurements for up to 4 devices a node and %d in all",
			on.Nodes, on.DevicesPerNode, cluster.MaxSizes)
	}
	known := map[string]*polluxModel{}
	for name, m := range models {
		known[name] = newPolluxModel(m)
	}
	var jobs []Job
	for i, a := range f.Arrivals {
		m := known[a.Model]
		if m == nil || a.BatchSize < m.InitBatch || a.BatchSize > m.MaxBatch {
			return nil, nil, fmt.Errorf("%s: job %.60q: model %.40q at batch %d was not measured: the rules pollux need a trace of that simulator",
				f.At(a), a.ID, a.Model, a.BatchSize)
		}
		x := &polluxJob{index: i, model: m, batch: a.BatchSize, workers: a.Workers, most: a.BatchSize / m.MinLocal}
		if a.Model == "ncf" {
			x.most = 1 // its simulator's exception: it does not scale
		}
		p.jobs = append(p.jobs, x)
		j, err := x.job(a, policy == "tiresias", on.Nodes*on.DevicesPerNode)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		jobs = append(jobs, j)
	}
	return p, jobs, nil
}

// job is the job as the coordinator gets it: its work is what all its steps take on one device.
func (j *polluxJob) job(a trace.Arrival, rigid bool, devices int) (Job, error) {
	step, err := j.model.stepTime(j.batch, 1)
	if err != nil {
		return Job{}, err
	}
	out := Job{Arrival: a, Sizes: []int{a.Workers}}
	if !rigid {
		out.Sizes = nil
		for k := 1; k <= min(max(j.most, 1), devices); k++ {
			out.Sizes = append(out.Sizes, k)
		}
	}
	out.MinWorkers, out.MaxWorkers = out.Sizes[0], out.Sizes[len(out.Sizes)-1]
	out.Work = duration(step * j.model.at(j.batch, j.model.Epochs-1, func(e trace.PolluxEpoch) float64 { return e.Iteration }))
	out.ETA = out.Work
	return out, nil
}

// Workers implements Rules.
func (p *Pollux) Workers(index int) int {
	if j := p.jobs[index]; !j.ended {
		return len(j.nodes)
	}
	return 0
}

// Instant implements Rules.
func (p *Pollux) Instant(s *State) {
	for _, i := range s.Came {
		p.jobs[i].came = true
	}
	for _, i := range s.Ended {
		p.jobs[i].ended = true
	}
	const round = polluxRound * time.Second
	if now := int(s.Now / time.Second); s.Now%round == 0 && now > p.now {
		p.now = now
		s.Err = p.round()
	}
	left := false
	for _, j := range p.jobs {
		if !j.came || j.ended {
			continue
		}
		left = true
		if j.end > 0 {
			s.Ends[j.index] = time.Duration(j.end) * time.Second
		}
	}
	if left {
		s.Again = s.Now.Truncate(round) + round
	}
}

// round decides, and then plays what follows up to the next one.
func (p *Pollux) round() error {
	var active []*polluxJob
	for i := range p.free {
		p.free[i] = p.device
	}
	for _, j := range p.jobs {
		if !j.came || j.ended {
			continue
		}
		active = append(active, j)
		for _, n := range j.nodes {
			p.free[n]--
		}
	}
	if len(active) == 0 { // the last one ended since the round before
		return nil
	}
	before := make([][]int, len(active))
	for i, j := range active {
		before[i] = j.nodes
	}
	if err := p.decide(p, active); err != nil {
		return err
	}
	for i, j := range active {
		if !slices.Equal(before[i], j.nodes) {
			j.move()
		}
		if err := j.play(p.now); err != nil {
			return err
		}
	}
	return nil
}

// release takes a job's devices.
func (p *Pollux) release(j *polluxJob) {
	for _, n := range j.nodes {
		p.free[n]++
	}
	j.nodes = nil
}

// take gives a job devices, from the node with the most free ones first.
func (p *Pollux) take(j *polluxJob, workers int) {
	for len(j.nodes) < workers {
		emptiest := 0
		for n, free := range p.free {
			if free > p.free[emptiest] {
				emptiest = n
			}
		}
		k := min(p.free[emptiest], workers-len(j.nodes))
		p.free[emptiest] -= k
		for range k {
			j.nodes = append(j.nodes, emptiest)
		}
	}
}

// move begins a new placement.
func (j *polluxJob) move() {
	j.placement = nil
	for i, n := range j.nodes {
		if i == 0 || n != j.nodes[i-1] {
			j.placement = append(j.placement, 0)
		}
		j.placement[len(j.placement)-1]++
	}
	if len(j.nodes) > 0 {
		j.pause = polluxPause
	}
}

// play counts one round's progress from now on, and finds out whether the job ends in it.
func (j *polluxJob) play(now int) error {
	workers := len(j.nodes)
	if workers == 0 {
		return nil
	}
	delay := min(j.pause, polluxRound)
	j.pause -= delay
	least := 0
	if workers == 1 && j.batch > j.model.InitBatch {
		least = 1
	}
	j.atomic, j.accumulated = j.model.shareOf(j.batch, workers, least)
	t, err := j.model.time(j.placement, j.atomic)
	if err != nil {
		return err
	}
	total := t.step + (t.step-t.sync)*float64(j.accumulated)
	now += delay
	for seconds := polluxRound - delay; seconds > 0; {
		rate := j.model.gain(workers*j.atomic*(j.accumulated+1), j.epoch) / total
		next := j.model.progress(j.epoch + 1)
		if far := j.progress + float64(rate*float64(seconds)); far < next {
			j.progress = far
			return nil
		}
		took := int(math.RoundToEven((next - j.progress) / rate))
		j.epoch++
		j.progress = next
		now += took
		seconds -= took
		if j.epoch == j.model.Epochs {
			j.end = now
			return nil
		}
	}
	return nil
}
