package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Terms are the conventions of a published simulator for policies of production:
// what its Rules count and charge, apart from what they decide. What is left out is Config's.
type Terms struct {
	// Round is the time between the moments at which arrivals and ends are seen: between two of
	// them devices of a job that has ended are idle. 0 = they are seen at once.
	Round time.Duration
	// Apart is how far apart those moments are at least, where they lie on no grid: what comes or ends
	// is seen at once, or so long after what was seen last. Not both of Round and Apart.
	Apart time.Duration
	// StartCost is what a start with so many workers costs a job; nil = Config.RescaleCost and StartCosts.
	StartCost func(j Job, workers int) time.Duration
	// Pace is how many steps a job makes in its world, relative to one device with the
	// smallest batch; nil = Job.Speed. An error ends the run.
	Pace func(j Job, at Standing) (float64, error)
	// Worth is what a step there is worth in steps at the smallest batch, and the gradient
	// noise scale that its ranks would measure, in samples; nil = 1, and nothing. Both may
	// change where a part of Stages is done, which are ascending and below 1; nil = none.
	Worth  func(j Job, at Standing) (gain, noise float64)
	Stages func(j Job) []float64
	// Losses is what the ranks of a job have told of their losses, from its first step to where that
	// part of its work is done, all zero if they tell none; nil = no job tells any.
	Losses func(j Job, done float64) goodput.Told
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

// seeing does what follows from an arrival or an end that happens now, when that is seen: at the
// latest when the running slot of what is promised ends, as a decision is made then.
func (w *world) seeing(do func()) {
	next := w.saw + w.cfg.Terms.Apart
	if w.now >= next || w.now == w.saw {
		w.saw = w.now
		do()
		return
	}
	if kvs, _ := w.store.Range(record.PromisedKey); len(kvs) > 0 {
		_, left := decode[record.Promises](kvs[0].Value).At(zero.Add(w.now))
		next = min(next, w.now+left)
	}
	w.at(next, func() { w.saw = next; do() })
}

// Standing is where a job is.
type Standing struct {
	Placement []int    // workers on each of its nodes
	Models    []string // of their devices, each once; nil = all are alike
	Batch     int      // of its world
	Done      float64  // part of its work, which Pace does not depend on
}

// Workers is how many workers it has.
func (s Standing) Workers() (n int) {
	for _, each := range s.Placement {
		n += each
	}
	return n
}

// standing is where a job is with a world.
func (j *job) standing(placement []int, batch int) Standing {
	return Standing{Placement: placement, Batch: batch, Done: min(1, j.done/j.Work.Seconds())}
}

// pace is how many steps a job makes there. The first error is kept, and ends the run.
func (w *world) pace(j *job, at Standing) float64 {
	if w.cfg.Terms.Pace == nil {
		workers := at.Workers()
		speed := j.speedOn(at.Models, workers)
		if len(at.Placement) > goodput.NodesFor(workers, w.cfg.DevicesPerNode) {
			speed *= 1 - w.cfg.SpanLoss
		}
		return speed
	}
	v, err := w.cfg.Terms.Pace(j.Job, at)
	if err == nil && !(v > 0) {
		err = fmt.Errorf("job %.60q has no speed on placement %v", j.ID, at.Placement)
	}
	if err != nil {
		if w.err == nil {
			w.err = fmt.Errorf("simulate: at %v: job %.60q: %w", w.now, j.ID, err)
		}
		return 1
	}
	return v
}

// worth is what a step of the job is worth there, and what noise its ranks measure.
func (w *world) worth(j *job, at Standing) (gain, noise float64) {
	if w.cfg.Terms.Worth == nil {
		return 1, 0
	}
	return w.cfg.Terms.Worth(j.Job, at)
}

// speed is how much of its work a job does in its newest world, relative to one device.
func (w *world) speed(j *job) float64 {
	at := j.standing(placement(j.gen.world), j.gen.world.BatchSize)
	at.Models = w.modelsOf(j.gen.world)
	gain, _ := w.worth(j, at)
	return w.pace(j, at) * gain
}

// modelsOf are the models of a world's devices, whether nodes tell them or not; nil where all are alike.
func (w *world) modelsOf(world cluster.World) (models []string) {
	for _, m := range world.Members {
		if i := w.node(m.Node).index; w.cfg.Models != nil && !slices.Contains(models, w.cfg.Models[i]) {
			models = append(models, w.cfg.Models[i])
		}
	}
	return models
}

// untilStage is how much of the job's work ends its present stage; false if that is its last.
func (w *world) untilStage(j *job) (goal float64, more bool) {
	if w.cfg.Terms.Stages == nil {
		return 0, false
	}
	for _, part := range w.cfg.Terms.Stages(j.Job) {
		if goal := part * j.Work.Seconds(); goal > j.done*(1+1e-12) {
			return goal, true
		}
	}
	return 0, false
}

// nextStage goes over to a job's next stage when that begins in its newest world; false
// if it is in its last.
func (w *world) nextStage(j *job) bool {
	goal, more := w.untilStage(j)
	if !more {
		return false
	}
	g, ending := j.gen, j.gen.ending
	takes := time.Duration(math.Ceil((goal - j.done) / g.speed * float64(time.Second)))
	w.at(max(g.since, w.now)+takes, func() {
		if g.gone || g.frozen || g.ending != ending {
			return
		}
		j.advance(w.now)
		j.done = max(j.done, goal)
		g.speed = w.speed(j)
		w.tellNoise(j)
		w.forecast(j)
	})
	return true
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
