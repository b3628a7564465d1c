package pollux

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Rules are the conventions of the Pollux simulator (Qiao et al., OSDI 2021),
// for the two policies that its authors compare with, both with tuned jobs:
//
//   - Decisions are made once a minute, in whole seconds. Jobs that end in
//     between leave their devices idle until the next one.
//   - A job's batch is its user's. Its progress is counted in steps at its
//     model's first batch, of which a step at a larger one is worth several,
//     as measured; an epoch's end is rounded to whole seconds.
//   - Steps take as long as was measured on the same placement, and every new
//     placement costs 30 s.
//   - tiresias gives each job the workers its user asked for, in two queues that
//     device time separates; optimus adds workers one at a time where they shorten
//     the remaining time most, knowing the true times. Both fill the node with
//     the most free devices first.
type Rules struct {
	decide func(p *Rules, active []*job) error
	jobs   []*job // in the order of the trace
	free   []int  // free devices of each node
	on     sim.Machines
	now    int // seconds
	queues [2][]*job
}

type job struct {
	index   int
	model   *model
	batch   int
	workers int // that its user asked for
	most    int // workers that it can use

	arrived, ended bool
	end            int // when it will end in this round; 0 = not
	nodes          []int
	placement      []int
	atomic         int
	accumulated    int
	pause          int
	progress       float64
	epoch          int

	queued  bool // by tiresias
	running bool
	counted int // the time up to which service is counted
	service int
}

const (
	roundSeconds = 60 // between decisions
	pauseSeconds = 30 // what a new placement costs
	// demotion is the device time at which tiresias puts a job into the second queue.
	demotion = 16 * 3600
)

// Policies names the policies that New knows.
func Policies() []string { return []string{"tiresias", "optimus"} }

// Setup is what the rules need besides a trace.
type Setup struct {
	sim.Machines
	Models trace.PolluxModels // the measurements, by model
}

// New makes the rules for one of Policies, and the jobs of a trace as they see them.
func New(policy string, f trace.File, in Setup) (*Rules, []sim.Job, error) {
	on := in.Machines
	p := &Rules{on: on, free: make([]int, on.Nodes)}
	switch policy {
	case "tiresias":
		p.decide = (*Rules).tiresias
	case "optimus":
		p.decide = (*Rules).optimus
	default:
		return nil, nil, fmt.Errorf("policy %q: the rules pollux know %s", policy, strings.Join(Policies(), ", "))
	}
	found, err := find(f, in)
	if err != nil {
		return nil, nil, err
	}
	var jobs []sim.Job
	for i, a := range f.Arrivals {
		j, err := found[i].job(a, policy == "tiresias", on.Devices())
		if err != nil {
			return nil, nil, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		jobs = append(jobs, j)
	}
	p.jobs = found
	return p, jobs, nil
}

// find finds what was measured of the jobs of a trace.
func find(f trace.File, in Setup) ([]*job, error) {
	if on := in.Machines; on.Devices() > cluster.MaxSizes || on.DevicesPerNode > 4 {
		return nil, fmt.Errorf("%d nodes of %d devices: the rules pollux have measurements for up to 4 devices a node and %d in all",
			on.Nodes, on.DevicesPerNode, cluster.MaxSizes)
	}
	known := map[string]*model{}
	for name, m := range in.Models {
		known[name] = newModel(m)
	}
	var jobs []*job
	for i, a := range f.Arrivals {
		m := known[a.Model]
		if m == nil || a.BatchSize < m.InitBatch || a.BatchSize > m.MaxBatch {
			return nil, fmt.Errorf("%s: job %.60q: model %.40q at batch %d was not measured: the rules pollux need a trace of that simulator",
				f.At(a), a.ID, a.Model, a.BatchSize)
		}
		x := &job{index: i, model: m, batch: a.BatchSize, workers: a.Workers, most: a.BatchSize / m.MinLocal}
		if a.Model == "ncf" {
			x.most = 1 // its simulator's exception: it does not scale
		}
		jobs = append(jobs, x)
	}
	return jobs, nil
}

// job is the job as the coordinator gets it: its work is what all its steps take on one device.
func (j *job) job(a trace.Arrival, rigid bool, devices int) (sim.Job, error) {
	step, err := j.model.assumed(j.batch, 1)
	if err != nil {
		return sim.Job{}, err
	}
	out := sim.Job{Arrival: a, Sizes: []int{a.Workers}}
	if !rigid {
		out.Sizes = nil
		for k := 1; k <= min(max(j.most, 1), devices); k++ {
			out.Sizes = append(out.Sizes, k)
		}
	}
	out.MinWorkers, out.MaxWorkers = out.Sizes[0], out.Sizes[len(out.Sizes)-1]
	out.Work = sim.Seconds(step * j.model.at(j.batch, j.model.Epochs-1, func(e trace.PolluxEpoch) float64 { return e.Iteration }))
	out.ETA = out.Work
	return out, nil
}

// Workers implements Rules.
func (p *Rules) Workers(index int) int {
	if j := p.jobs[index]; !j.ended {
		return len(j.nodes)
	}
	return 0
}

// Instant implements Rules.
func (p *Rules) Instant(s *sim.State) {
	for _, i := range s.Arrived {
		p.jobs[i].arrived = true
	}
	for _, i := range s.Ended {
		p.jobs[i].ended = true
	}
	const round = roundSeconds * time.Second
	if now := int(s.Now / time.Second); s.Now%round == 0 && now > p.now {
		p.now = now
		s.Err = p.round()
	}
	left := false
	for _, j := range p.jobs {
		if !j.arrived || j.ended {
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

// round decides, and then counts what the jobs do until the next round.
func (p *Rules) round() error {
	var active []*job
	for i := range p.free {
		p.free[i] = p.on.DevicesPerNode
	}
	for _, j := range p.jobs {
		if !j.arrived || j.ended {
			continue
		}
		active = append(active, j)
		for _, n := range j.nodes {
			p.free[n]--
		}
	}
	if len(active) == 0 { // the last job ended since the previous round
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
		if err := j.train(p.now); err != nil {
			return err
		}
	}
	return nil
}

// release takes away all devices of a job.
func (p *Rules) release(j *job) {
	for _, n := range j.nodes {
		p.free[n]++
	}
	j.nodes = nil
}

// take gives a job devices, from the node with the most free ones first.
func (p *Rules) take(j *job, workers int) {
	for len(j.nodes) < workers {
		freest := 0
		for n, free := range p.free {
			if free > p.free[freest] {
				freest = n
			}
		}
		k := min(p.free[freest], workers-len(j.nodes))
		p.free[freest] -= k
		for range k {
			j.nodes = append(j.nodes, freest)
		}
	}
}

// move begins a new placement.
func (j *job) move() {
	j.placement = nil
	for i, n := range j.nodes {
		if i == 0 || n != j.nodes[i-1] {
			j.placement = append(j.placement, 0)
		}
		j.placement[len(j.placement)-1]++
	}
	if len(j.nodes) > 0 {
		j.pause = pauseSeconds
	}
}

// stepTime is how long a step at the job's batch takes, and sets how it is split.
func (j *job) stepTime(placement []int) (float64, error) {
	workers := 0
	for _, n := range placement {
		workers += n
	}
	least := 0
	if workers == 1 && j.batch > j.model.InitBatch {
		least = 1
	}
	j.atomic, j.accumulated = j.model.shareOf(j.batch, workers, least)
	t, err := j.model.time(placement, j.atomic)
	return t.step + (t.step-t.sync)*float64(j.accumulated), err
}

// train counts one round's progress from now on, and sets when the job ends if it ends in it.
func (j *job) train(now int) error {
	workers := len(j.nodes)
	if workers == 0 {
		return nil
	}
	delay := min(j.pause, roundSeconds)
	j.pause -= delay
	total, err := j.stepTime(j.placement)
	if err != nil {
		return err
	}
	now += delay
	for seconds := roundSeconds - delay; seconds > 0; {
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
