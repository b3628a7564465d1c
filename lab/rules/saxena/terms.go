package saxena

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// allSame is a gradient noise scale beside which any batch is small: a step at a batch is
// worth as many steps at the smallest as it has times the samples. The paper takes that of all
// batches of a range.
const allSame = 1e12

// Terms are the conventions for policies of production, and the jobs of a trace as these
// get them: the batch may be any of the category's, starts cost nothing, and what a device does not
// take at once it takes in parts.
func Terms(f trace.File, in Setup) ([]sim.Job, sim.Terms, error) {
	var jobs []sim.Job
	of := map[string]category{}
	for _, a := range f.Arrivals {
		c, err := categoryOf(f, a)
		if err != nil {
			return nil, sim.Terms{}, err
		}
		of[a.ID] = c
		full := min(c.most, c.perDevice)
		samples := a.Duration.Seconds() * float64(full) / c.iteration(full, 1, false)
		j := sim.Job{
			Arrival: a, Work: sim.Seconds(samples / float64(c.least) * c.iteration(c.least, 1, false)),
			Batch: cluster.BatchSize{Min: c.least, Max: c.most}, Micro: c.perDevice, Command: []string{"train", c.model},
		}
		for k := 1; k <= min(kMax, in.Devices()) && (c.elastic || k == 1); k++ {
			j.Sizes = append(j.Sizes, k)
		}
		j.MinWorkers, j.MaxWorkers, j.ETA = 1, j.Sizes[len(j.Sizes)-1], j.Work
		jobs = append(jobs, j)
	}
	return jobs, sim.Terms{
		Pace: func(j sim.Job, at sim.Standing) (float64, error) {
			c, k := of[j.ID], 0
			for _, n := range at.Placement {
				k += n
			}
			return c.iteration(c.least, 1, false) / c.iteration(at.Batch, k, len(at.Placement) > 1), nil
		},
		Worth: func(j sim.Job, at sim.Standing) (gain, noise float64) {
			return float64(at.Batch) / float64(of[j.ID].least), allSame
		},
	}, nil
}
