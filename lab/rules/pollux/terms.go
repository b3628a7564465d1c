package pollux

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Terms are the simulator's conventions for policies of production, and the jobs of a
// trace as these get them: rounds of a minute, 30 s for each start, steps as
// long as was measured on the same placement, and as many of them as the job needs at
// its user's batch. Ends are not rounded to seconds, as they are by the epoch there. Rigid
// jobs have the workers that their users asked for; others may have powers of two.
func Terms(f trace.File, in Setup, rigid bool) ([]sim.Job, sim.Terms, error) {
	found, err := find(f, in)
	if err != nil {
		return nil, sim.Terms{}, err
	}
	var jobs []sim.Job
	one := map[string]float64{} // by job: its seconds on one device
	of := map[string]*job{}
	for i, a := range f.Arrivals {
		x := found[i]
		seconds, err := x.seconds([]int{1})
		if err != nil {
			return nil, sim.Terms{}, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		j := sim.Job{Arrival: a, MinWorkers: 1, MaxWorkers: min(max(x.most, 1), in.Devices()), Work: sim.Seconds(seconds)}
		if rigid {
			j.MinWorkers, j.MaxWorkers, j.Sizes = a.Workers, a.Workers, []int{a.Workers}
		}
		j.ETA = j.Work
		one[a.ID], of[a.ID] = seconds, x
		jobs = append(jobs, j)
	}
	return jobs, sim.Terms{
		Round:     roundSeconds * time.Second,
		StartCost: func(sim.Job, int) time.Duration { return pauseSeconds * time.Second },
		Pace: func(j sim.Job, at sim.Standing) (float64, error) {
			seconds, err := of[j.ID].seconds(at.Placement)
			return one[j.ID] / seconds, err
		},
	}, nil
}

// seconds is how long all of the job takes on a placement.
func (j *job) seconds(placement []int) (float64, error) {
	step, err := j.stepTime(placement)
	workers := 0
	for _, n := range placement {
		workers += n
	}
	return step * j.model.steps(workers*j.atomic*(j.accumulated+1)), err
}

// steps is how many steps at a batch a job takes in all: in each epoch one is worth several at the model's first batch.
func (m *model) steps(batch int) float64 {
	if sum, ok := m.inAll[batch]; ok {
		return sum
	}
	sum := 0.0
	for e := range m.Epochs {
		sum += float64((m.progress(e+1) - m.progress(e)) / m.gain(batch, e))
	}
	m.inAll[batch] = sum
	return sum
}
