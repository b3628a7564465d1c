package sim

import (
	"fmt"
	"time"
)

// Terms are the conventions of a published simulator for policies of production:
// what its Rules count and charge, apart from what they decide. What is left out is Config's.
type Terms struct {
	// Round is the time between the moments at which arrivals and ends are seen: between two of
	// them devices of a job that has ended are idle. 0 = they are seen at once.
	Round time.Duration
	// StartCost is what a start with so many workers costs a job; nil = Config.RescaleCost and StartCosts.
	StartCost func(j Job, workers int) time.Duration
	// Pace is how fast a job is with so many workers on each of its nodes, relative to
	// one device; nil = Job.Speed. An error ends the run.
	Pace func(j Job, placement []int) (float64, error)
	// Toll is what each arrival and each end costs every job that runs; nil = nothing. A job
	// that ends before the next of them does not pay it.
	Toll func(j Job, workers int) time.Duration
}

// seen is when something that happens at t is seen.
func (t Terms) seen(at time.Duration) time.Duration {
	if t.Round <= 0 {
		return at
	}
	return (at + t.Round - 1).Truncate(t.Round)
}

// pace is the speed of a job on a placement. The first error is kept, and ends the run.
func (w *world) pace(j *job, placement []int) float64 {
	if w.cfg.Terms.Pace == nil {
		workers := 0
		for _, n := range placement {
			workers += n
		}
		return j.Speed.On(workers)
	}
	v, err := w.cfg.Terms.Pace(j.Job, placement)
	if err == nil && !(v > 0) {
		err = fmt.Errorf("job %.60q has no speed on placement %v", j.ID, placement)
	}
	if err != nil {
		if w.err == nil {
			w.err = fmt.Errorf("simulate: at %v: job %.60q: %w", w.now, j.ID, err)
		}
		return 1
	}
	return v
}

// packed is a placement on as few nodes as hold so many workers.
func (w *world) packed(workers int) (placement []int) {
	for rest := workers; rest > 0; rest -= w.cfg.DevicesPerNode {
		placement = append(placement, min(rest, w.cfg.DevicesPerNode))
	}
	return placement
}

// charge makes all jobs that run pay for an arrival or an end.
func (w *world) charge() {
	due := w.eventful
	w.eventful = false
	if !due || w.cfg.Terms.Toll == nil {
		return
	}
	for _, j := range w.open {
		g := j.gen
		if g == nil || !g.started || g.gone || g.frozen {
			continue
		}
		j.advance(w.now)
		g.since = w.now
		w.forecast(j) // as if it paid nothing
		g.since = w.now + w.cfg.Terms.Toll(j.Job, g.world.Size())
	}
}
