package pollux

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Ranges are Terms for jobs whose batch may be anything from their model's first one to
// its largest, as Pollux's own are: their users' batches do not count. What a step at a
// batch is worth, and the gradient noise scale that it shows, are those that were
// measured in each epoch of trainings at the batches around it; a job's work is counted in
// steps at the first batch.
//
// Fewer samples on a device than were measured take as long as the fewest that were.
func Ranges(f trace.File, in Setup) ([]sim.Job, sim.Terms, error) {
	found, err := find(f, in)
	if err != nil {
		return nil, sim.Terms{}, err
	}
	var jobs []sim.Job
	one := map[*model]float64{} // seconds of a step at the first batch on one device
	of := map[string]*model{}
	for i, a := range f.Arrivals {
		m := found[i].model
		if one[m] == 0 {
			if one[m], _, err = m.step([]int{1}, m.InitBatch); err != nil {
				return nil, sim.Terms{}, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
			}
		}
		of[a.ID] = m
		j := sim.Job{
			Arrival: a, Work: sim.Seconds(one[m] * m.progress(m.Epochs)), Sizes: []int{1},
			Batch: cluster.BatchSize{Min: m.InitBatch, Max: m.MaxBatch}, Micro: m.MaxLocal,
		}
		most := min(m.MaxBatch/m.MinLocal, in.Devices())
		if found[i].most == 1 {
			most = 1 // its simulator's exception
		}
		for k := 2; k <= most; k *= 2 {
			j.Sizes = append(j.Sizes, k)
		}
		j.MinWorkers, j.MaxWorkers = 1, j.Sizes[len(j.Sizes)-1]
		j.ETA = j.Work
		jobs = append(jobs, j)
	}
	return jobs, sim.Terms{
		Round:     roundSeconds * time.Second,
		StartCost: func(sim.Job, int) time.Duration { return pauseSeconds * time.Second },
		Pace: func(j sim.Job, at sim.Standing) (float64, error) {
			seconds, _, err := of[j.ID].step(at.Placement, at.Batch)
			return one[of[j.ID]] / seconds, err
		},
		Worth: func(j sim.Job, at sim.Standing) (gain, noise float64) {
			m := of[j.ID]
			epoch := m.epochAt(at.Done)
			_, batch, _ := m.step(at.Placement, at.Batch)
			return m.gain(batch, epoch), m.noise(batch, epoch)
		},
		Stages: func(j sim.Job) []float64 { return of[j.ID].epochEnds() },
	}, nil
}

// step is how long a step takes on a placement, and of how many samples it is, once they are split.
func (m *model) step(placement []int, batch int) (seconds float64, samples int, err error) {
	j := job{model: m, batch: batch}
	workers := 0
	for _, n := range placement {
		workers += n
	}
	if seconds, err = j.stepTime(placement); err == nil || j.atomic >= m.MinLocal {
		return seconds, workers * j.atomic * (j.accumulated + 1), err
	}
	t, err := m.time(placement, m.MinLocal)
	return t.step + (t.step-t.sync)*float64(j.accumulated), batch, err
}

// noise is the gradient noise scale in samples.
func (m *model) noise(batch, epoch int) float64 {
	sqr := m.at(batch, epoch, func(e trace.PolluxEpoch) float64 { return e.GradSqr })
	variance := m.at(batch, epoch, func(e trace.PolluxEpoch) float64 { return e.GradVar })
	return float64(m.InitBatch) * variance / sqr
}

// epochEnds are the parts of the work after which the epochs end, but the last.
func (m *model) epochEnds() []float64 {
	if m.ends == nil {
		m.ends = []float64{}
		for e := 1; e < m.Epochs; e++ {
			m.ends = append(m.ends, m.progress(e)/m.progress(m.Epochs))
		}
	}
	return m.ends
}

// epochAt is the epoch, from 0, in which a part of the work is done.
func (m *model) epochAt(done float64) (epoch int) {
	const rounded = 1e-9
	for _, end := range m.epochEnds() {
		if end <= done+rounded {
			epoch++
		}
	}
	return epoch
}
