package coordinator

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/record"
)

// A job with nothing left is left alone to end, evaluating and saving the last model.
// Then its number of steps was wrong, or what it reports. One that was never seen to
// do steps, and has said at once that all are done, gains no more than unshownFor by it.
const (
	finishingFor = 10 * time.Minute
	unshownFor   = time.Minute
)

// foresee forecasts the job: by what is recorded of its speed, and how far it is now.
func foresee(in situation) forecast.Forecast {
	spec, speed := &in.Spec.Value, &in.Speed.Value
	j := stepsOf(in)
	j.Steps, j.ETA, j.Starts = spec.Steps, time.Duration(spec.ETA), forecast.StartsOf(speed.Starts)
	if !in.measures.off {
		j.Fleet = in.measures.fleetStart(in.mirror)
	}
	j.Trained, j.Service = in.trained(in.now)
	done, told := stepsDone(in)
	j.Done, j.Reported, j.Void = done, told || in.Committed.Exists() || in.measures.off, void(in)
	j.Overdue = overdue(in)
	known := learn(in)
	kind := kindOf(in, known.name).Value
	j.KindStarts, j.KindTook = forecast.StartsOf(kind.Starts), forecast.TookOf(kind.Lengths)
	if !in.measures.off {
		j.FleetTook = in.measures.fleetTook(in.mirror)
	}
	return known.Of(j)
}

// finished reports whether a job at work has told that nothing is left to do.
func finished(in situation) bool {
	steps := in.Spec.Value.Steps
	if steps <= 0 || !in.state().Phase.Active() {
		return false
	}
	done, _ := stepsDone(in)
	return done >= steps
}

// overdue reports whether it has had the time to end since.
func overdue(in situation) bool {
	if !finished(in) {
		return false
	}
	patience := finishingFor
	if len(measured(in)) == 0 {
		patience = unshownFor
	}
	end := in.since(wait{in.ID, doneWait}, in.gen.Plan.Value.At).Add(patience)
	in.wake(end)
	return !in.clock.Before(end)
}

// void reports whether what the job's newest generation reports cannot be believed.
func void(in situation) bool {
	m := in.measures.of[in.ID]
	return m != nil && m.generation == in.number() && m.meter.Fault().Void
}

// stepsDone is how many steps the job is believed to have done; false if its newest
// generation has told nothing.
func stepsDone(in situation) (step int64, told bool) {
	step = max(in.Committed.Value.Step, 0)
	if ranges := in.Spec.Value.BatchSize; ranges.Max > ranges.Min {
		step = max(step, in.Speed.Value.BaseSteps)
	}
	m := in.measures.of[in.ID]
	switch {
	case in.measures.off:
		p := progress(in)
		return max(step, p), p >= 0
	case m == nil || m.generation != in.number() || void(in):
		return step, false
	}
	at, _, ok := m.meter.Step()
	return max(step, inBaseSteps(in, m, at)), ok
}

// inBaseSteps is what so many steps of a generation are worth in steps at the smallest
// batch, as its ranks have told.
func inBaseSteps(in situation, m *measure, step int64) int64 {
	told := 0.0
	for _, p := range m.last {
		if p.Step <= step {
			told = max(told, p.BaseSteps)
		}
	}
	return min(in.Spec.Value.BatchSize.BaseSteps(step, told), record.MaxCount)
}

// stepsOf is what the job's steps are like: what they may take, and in its present world do.
func stepsOf(in situation) forecast.Job {
	spec := &in.Spec.Value
	j := forecast.Job{Sizes: in.sizes, Batch: spec.BatchSize.Min, PerNode: in.perNode()}
	if b := in.Batch(); b.Max > b.Min {
		j.Range = forecast.Range{Most: b.Max, Noise: noiseOf(in)}
	}
	if world := in.world(); in.state().Phase.Active() {
		j.In = forecast.World{Workers: world.Size(), Nodes: len(world.Members), Batch: world.BatchSize}
	}
	return j
}

// noiseOf is the job's gradient noise scale in samples, by which its batch is chosen: as its
// ranks have told last or, while they have told none, as a job of its kind did; 0 = unknown.
func noiseOf(in situation) float64 {
	return cmp.Or(toldNoise(in), kindOf(in, in.Spec.Value.KindName()).Value.NoiseScale)
}

// toldNoise is the noise scale that the job's ranks have told last; 0 = none.
func toldNoise(in situation) float64 {
	if m := in.measures.of[in.ID]; m != nil && m.generation == in.number() && m.noise > 0 {
		return m.noise
	}
	return in.Speed.Value.NoiseScale
}

// kindOf is what jobs of the owner's of that name have shown.
func kindOf(in situation, name string) record.Versioned[record.JobKind] {
	return in.mirror.Kinds[in.Spec.Value.Owner.UID][name]
}

// learn makes the job's model of what was measured of it and of its kind, anew only where that has changed.
func learn(in situation) *learned {
	j := stepsOf(in)
	l := in.measures.seen[in.ID]
	if l == nil || l.spec != in.Spec.Mod {
		l = &learned{spec: in.Spec.Mod, speed: -1, name: in.Spec.Value.KindName()}
		in.measures.seen[in.ID] = l
	}
	kind, now := kindOf(in, l.name), lively(in)
	if l.speed == in.Speed.Mod && l.kind == kind.Mod && l.live == now && l.perNode == j.PerNode && l.ranges == j.Range && slices.Equal(l.sizes, in.sizes) {
		return l
	}
	l.speed, l.kind, l.live, l.perNode, l.ranges, l.sizes = in.Speed.Mod, kind.Mod, now, j.PerNode, j.Range, in.sizes
	l.Learned, l.on = forecast.Learned{}, nil
	if points := measured(in); len(points)+len(kind.Value.Points) > 0 {
		j.Void, j.Range.Micro = now.void, in.Spec.Value.MicroBatch()
		j.Points, j.Kind = forecast.PointsOf(points, kind.Value.Points)
		l.Learned = forecast.Learn(j)
	}
	return l
}

// measured are all measurements of the job, those that no record has yet among them.
func measured(in situation) []record.SpeedPoint {
	points := in.Speed.Value.Points
	m := in.measures.of[in.ID]
	if m == nil || m.generation != in.number() {
		return points
	}
	for _, p := range m.points {
		points = withPoint(points, p)
	}
	return m.merged(in.JobView, points)
}

// lively is what the running generation has shown.
func lively(in situation) live {
	m := in.measures.of[in.ID]
	if m == nil || m.generation != in.number() {
		return live{}
	}
	rate, _ := m.meter.Rate()
	return live{generation: m.generation, windows: bits.Len(uint(rate.Windows)), void: m.meter.Fault().Void}
}
