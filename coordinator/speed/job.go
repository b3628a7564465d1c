package speed

import (
	"cmp"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Job says which job is looked at, and what of it is not read off its own records.
type Job struct {
	*record.JobView
	Gen     *record.GenerationView // its newest generation; never nil
	Sizes   []int                  // the world sizes that it may have, ascending; not to be changed
	PerNode int                    // devices of the largest node that is alive; 0 = unknown

	Trained time.Duration // it has had workers for, and
	Service time.Duration // that times their number
}

// A Known is one job with all that is known of its speed at one moment. It is valid
// until the measures or the records change.
type Known struct {
	Job
	all    *Measures
	mirror *record.Mirror
	now    time.Time
	run    *measure // of its newest generation; nil = nothing was reported yet
}

// Of looks at one job. now is for records: by the wall clock.
func (ms *Measures) Of(m *record.Mirror, now time.Time, j Job) Known {
	k := Known{Job: j, all: ms, mirror: m, now: now}
	if run := ms.of[j.ID]; run != nil && run.generation == j.State.Value.Generation {
		k.run = run
	}
	return k
}

// Patience with a job that has nothing left: it is left alone to end, evaluating and saving the last model.
// Then its number of steps was wrong, or what it reports. One that was never seen to
// do steps, and has said at once that all are done, gains no more than unshownFor by it.
const (
	finishingFor = 10 * time.Minute
	unshownFor   = time.Minute
)

func (k Known) world() cluster.World { return k.Gen.Plan.Value.World }

func (k Known) active() bool { return k.State.Value.Phase.Active() }

// Finished reports whether a job at work has told that nothing is left to do, and for how long it may then take to
// end, counted from when its generation was planned.
func (k Known) Finished() (patience time.Duration, finished bool) {
	steps := k.Spec.Value.Steps
	if steps <= 0 || !k.active() {
		return 0, false
	}
	if done, _ := k.StepsDone(); done < steps {
		return 0, false
	}
	if len(k.measured()) == 0 {
		return unshownFor, true
	}
	return finishingFor, true
}

// Begun reports whether the newest generation has reported a step.
func (k Known) Begun() bool {
	if k.run == nil {
		return false
	}
	_, _, begun := k.run.meter.Step()
	return begun
}

// Void reports whether what the job's newest generation reports cannot be believed.
func (k Known) Void() bool { return k.run != nil && k.run.meter.Fault().Void }

// StepsDone is how many steps the job is believed to have done; false if its newest
// generation has told nothing.
func (k Known) StepsDone() (step int64, told bool) {
	step = max(k.Committed.Value.Step, 0)
	if ranges := k.Spec.Value.BatchSize; ranges.Max > ranges.Min {
		step = max(step, k.Speed.Value.BaseSteps)
	}
	switch {
	case k.all.off:
		p := Reported(k.mirror, k.ID, k.world())
		return max(step, p), p >= 0
	case k.run == nil || k.Void():
		return step, false
	}
	at, _, ok := k.run.meter.Step()
	return max(step, k.inBaseSteps(at)), ok
}

// Reported is the highest step that the members of a world have reported of a job, -1 if none has.
func Reported(m *record.Mirror, job cluster.JobID, w cluster.World) int64 {
	step := int64(-1)
	for _, member := range w.Members {
		if p, ok := m.Node(member.Node).Reported(job, w.Generation, w.Nonce); ok {
			step = max(step, p.Step)
		}
	}
	return step
}

// inBaseSteps is what so many steps of the newest generation are worth in steps at the smallest
// batch, as its ranks have told.
func (k Known) inBaseSteps(step int64) int64 {
	told := 0.0
	for _, p := range k.run.last {
		if p.Step <= step {
			told = max(told, p.BaseSteps)
		}
	}
	return min(k.Spec.Value.BatchSize.BaseSteps(step, told), record.MaxCount)
}

// steps is what the job's steps are like: what they may take, and in its present world do.
func (k Known) steps() forecast.Job {
	j := forecast.Job{Sizes: k.Sizes, Batch: k.Spec.Value.BatchSize.Min, PerNode: k.PerNode}
	if b := k.Batch(); b.Max > b.Min {
		j.Range = forecast.Range{Most: b.Max, Noise: k.noise()}
	}
	if world := k.world(); k.active() {
		j.In = forecast.World{Workers: world.Size(), Nodes: len(world.Members), Batch: world.BatchSize}
	}
	return j
}

// noise is the job's gradient noise scale in samples, by which its batch is chosen: as its
// ranks have told last or, while they have told none, as a job of its kind did; 0 = unknown.
func (k Known) noise() float64 {
	return cmp.Or(k.toldNoise(), k.kind(k.Spec.Value.KindName()).Value.NoiseScale)
}

// toldNoise is the noise scale that the job's ranks have told last; 0 = none.
func (k Known) toldNoise() float64 {
	if k.run != nil && k.run.noise > 0 {
		return k.run.noise
	}
	return k.Speed.Value.NoiseScale
}

// kind is what jobs of the owner's of that name have shown.
func (k Known) kind(name string) record.Versioned[record.JobKind] {
	return k.mirror.Kinds[k.Spec.Value.Owner.UID][name]
}

// measured are all measurements of the job, those that no record has yet among them.
func (k Known) measured() []record.SpeedPoint {
	points := k.Speed.Value.Points
	if k.run == nil {
		return points
	}
	for _, p := range k.run.points {
		points = withPoint(points, p)
	}
	return k.run.merged(k.JobView, points)
}
