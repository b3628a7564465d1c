package saxena

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/split"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Rules are the conventions of the paper's autoscaler and simulator:
//
//   - Every Δ, if jobs have come or ended, jobs that wait are tried in the order of their arrival,
//     those that run before them, and the dynamic program decides for all that fit.
//   - elastic may use any batch of a job's range; baseline keeps the one of the trace and changes
//     the number of devices alone, so that it needs as many as hold that batch.
//   - queue keeps the jobs that do not fit, drop refuses them.
//   - A start costs nothing, and nothing is lost by one. Devices that become free wait for the next Δ.
//   - Jobs of the category without elasticity have one device.
type Rules struct {
	drop    bool
	delta   time.Duration
	devices int
	jobs    []*job
	waiting []*job // in the order of arrival
	changed bool   // a job has come or ended since the last decision
	decided time.Duration
}

type job struct {
	index   int
	options split.Job // number of devices, and the factor there
	k       int       // devices that it has
	rate    float64
	done    float64 // seconds of one device
	work    float64
	counted time.Duration
	gone    bool
}

// Policies names the policies that New knows.
func Policies() []string {
	return []string{"elastic-queue", "elastic-drop", "baseline-queue", "baseline-drop"}
}

// Setup is what the rules need besides a trace.
type Setup struct {
	sim.Machines
	Delta time.Duration
}

// New makes the rules for one of Policies, and the jobs of a trace as they see them.
func New(policy string, f trace.File, in Setup) (*Rules, []sim.Job, error) {
	if !slices.Contains(Policies(), policy) {
		return nil, nil, fmt.Errorf("policy %q: the rules saxena know %s", policy, strings.Join(Policies(), ", "))
	}
	kind, mode, _ := strings.Cut(policy, "-")
	r := &Rules{drop: mode == "drop", delta: in.Delta, devices: in.Devices(), decided: -1}
	var jobs []sim.Job
	for i, a := range f.Arrivals {
		c, err := categoryOf(f, a)
		if err != nil {
			return nil, nil, err
		}
		x := &job{index: i, work: a.Duration.Seconds()}
		for k := 1; k <= min(kMax, in.Devices()) && (c.elastic || k == 1); k++ {
			factor := c.factor(a.BatchSize, k, in.DevicesPerNode)
			if kind == "elastic" {
				factor, _ = c.best(k, in.DevicesPerNode)
			}
			if factor > 0 {
				x.options = append(x.options, split.Option{Devices: k, Value: factor})
			}
		}
		if len(x.options) == 0 {
			return nil, nil, fmt.Errorf("%s: job %.60q: a batch of %d does not fit on %d devices", f.At(a), a.ID, a.BatchSize, min(kMax, in.Devices()))
		}
		r.jobs = append(r.jobs, x)
		j := sim.Job{Arrival: a, Work: a.Duration, ETA: a.Duration}
		for _, o := range x.options {
			j.Sizes = append(j.Sizes, o.Devices)
		}
		j.MinWorkers, j.MaxWorkers = j.Sizes[0], j.Sizes[len(j.Sizes)-1]
		jobs = append(jobs, j)
	}
	return r, jobs, nil
}

// categoryOf is the category of a job of the trace.
func categoryOf(f trace.File, a trace.Arrival) (category, error) {
	c, ok := find(a.Model)
	switch {
	case !ok:
		return c, fmt.Errorf("%s: job %.60q: model %.40q: the rules saxena know resnet50, alexnet, vgg11_bn and alexnet-food101", f.At(a), a.ID, a.Model)
	case a.BatchSize < c.least || a.BatchSize > c.most:
		return c, fmt.Errorf("%s: job %.60q: batch %d: %s has %d to %d", f.At(a), a.ID, a.BatchSize, c.model, c.least, c.most)
	case a.Duration <= 0:
		return c, fmt.Errorf("%s: job %.60q: the rules saxena need how long it takes on one device", f.At(a), a.ID)
	}
	return c, nil
}

// Workers implements sim.Rules.
func (r *Rules) Workers(index int) int { return r.jobs[index].k }

// Instant implements sim.Rules.
func (r *Rules) Instant(s *sim.State) {
	for _, i := range s.Arrived {
		r.waiting = append(r.waiting, r.jobs[i])
		r.changed = true
	}
	for _, i := range s.Ended {
		r.jobs[i].gone, r.jobs[i].k = true, 0
		r.changed = true
	}
	if s.Now%r.delta == 0 && s.Now != r.decided && r.changed {
		r.decided, r.changed = s.Now, false
		r.decide(s)
	}
	left := false
	for _, j := range r.jobs {
		if j.k > 0 {
			s.Ends[j.index] = j.counted + sim.Seconds((j.work-j.done)/j.rate)
			left = true
		}
	}
	if left || len(r.waiting) > 0 {
		s.Again = s.Now.Truncate(r.delta) + r.delta
	}
}

// decide is MAKESCALINGDECISIONS of figure 4.
func (r *Rules) decide(s *sim.State) {
	var tried []*job
	var options []split.Job
	spare := r.devices
	try := func(j *job) bool {
		if j.options[0].Devices > spare {
			return false
		}
		spare -= j.options[0].Devices
		tried, options = append(tried, j), append(options, j.options)
		return true
	}
	for _, j := range r.jobs {
		if j.k > 0 {
			try(j)
		}
	}
	r.waiting = slices.DeleteFunc(r.waiting, try)
	plan, _ := split.Best(options, r.devices) // which has an answer, as all smallest sizes fit
	for n, j := range tried {
		j.count(s.Now)
		o := options[n][plan.Choices[n]]
		j.k, j.rate = o.Devices, o.Value
	}
	if r.drop {
		for _, j := range r.waiting {
			j.gone = true
			s.Refused = append(s.Refused, j.index)
		}
		r.waiting = nil
	}
}

// count counts the work done up to now.
func (j *job) count(now time.Duration) {
	if j.k > 0 {
		j.done = min(j.work, j.done+float64(j.rate*(now-j.counted).Seconds()))
	}
	j.counted = now
}
