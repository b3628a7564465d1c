package serve

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// jobSpeed is what is known of a job's speed, as far as who may see it: what the leader has
// recorded of it and of its kind, put together as decisions put it together.
func jobSpeed(m *record.Mirror, v *record.JobView, status api.JobStatus) api.JobSpeed {
	learnt, spec, state := v.Speed.Value, v.Scaled(), v.State.Value
	s := api.JobSpeed{SpeedProblem: learnt.Problem}
	if status.Workers > 0 {
		s.Batch = v.Generation(state.Generation).Plan.Value.World.BatchSize
	}
	kind := m.Kinds[v.Spec.Value.Owner.UID][spec.KindName()].Value
	sizes := spec.WorldSizes()
	for _, p := range learnt.Points { // also of sizes that it may not have any more
		if i, ok := slices.BinarySearch(sizes, p.Workers); !ok {
			sizes = slices.Insert(sizes, i, p.Workers)
		}
	}
	world := v.Generation(state.Generation).Plan.Value.World
	points := forecast.Job{
		Sizes: sizes[:min(len(sizes), record.MaxCurve)], Batch: cmp.Or(world.BatchSize, spec.BatchSize.Min), PerNode: perNode(m),
		Range: forecast.Range{Most: v.Batch().Max, Micro: spec.MicroBatch(), Noise: cmp.Or(learnt.NoiseScale, kind.NoiseScale)},
		In:    forecast.World{Workers: status.Workers, Nodes: len(world.Members), Batch: world.BatchSize},
	}
	if points.Range.Noise > 0 { // what steps are worth is counted in those of the smallest
		points.Batch = spec.BatchSize.Min
	}
	if learnt.NoiseScale > 0 {
		s.NoiseScale = &learnt.NoiseScale
	} else if kind.NoiseScale > 0 {
		s.KindNoiseScale = &kind.NoiseScale
	}
	points.Points, points.Kind = forecast.PointsOf(learnt.Points, kind.Points)
	known := forecast.Of(points)
	for i, e := range known.Curve {
		batch := 0
		if known.Batches != nil {
			batch = known.Batches[i]
		}
		s.Speeds = append(s.Speeds, api.SizeSpeed{Workers: sizes[i], Batch: batch, StepsPerSecond: e.PerSecond, Low: e.Low, High: e.High, Measured: e.Measured || hasSize(learnt.Points, sizes[i]) || hasSize(kind.Points, sizes[i])})
	}
	starts := learnt.Starts
	if len(starts) == 0 {
		starts = kind.Starts
	}
	for _, c := range starts {
		s.Starts = append(s.Starts, api.StartCost{Generation: uint64(c.Generation), Workers: c.Workers, Seconds: c.Seconds})
	}
	if g := learnt.Goodput(); g > 0 {
		s.Goodput = &g
	}
	s.LossTrend = lossTrend(learnt)
	if !state.Phase.Terminal() {
		now := standing{generation: state.Generation, workers: status.Workers, since: state.Since, starts: s.Starts, Progress: status.Progress}
		now.speed, now.learnt = known.Speed(points)
		s.Prediction = prediction(learnt, now)
	}
	return s
}

// lossTrend is how a loss goes by what is recorded of it; nil = too little is.
func lossTrend(s record.Speed) *api.LossTrend {
	l, ok := goodput.LossOf(forecast.LossesOf(s.Losses))
	if s.LossFlat != "" {
		l, ok = goodput.Loss{Flat: s.LossFlat}, true
	}
	if !ok {
		return nil
	}
	return &api.LossTrend{Fall: l.Fall, Flat: l.Flat, Remedy: goodput.LossRemedy(l.Flat)}
}

// perNode is how many devices the largest node has, as decisions count them.
func perNode(m *record.Mirror) (most int) {
	for _, id := range m.NodeIDs() {
		if n := m.Node(id); n.Alive.Exists() {
			most = max(most, len(n.Inventory.Value.Devices))
		}
	}
	return most
}

// hasSize reports whether something was measured with so many workers, whatever nodes they were on.
func hasSize(points []record.SpeedPoint, workers int) bool {
	return slices.ContainsFunc(points, func(p record.SpeedPoint) bool { return p.Workers == workers })
}

// standing is where a job is now.
type standing struct {
	generation cluster.Generation
	workers    int              // of its world; 0 = it waits
	speed      goodput.Estimate // there
	learnt     bool             // something was measured
	since      time.Time        // when it entered its phase
	starts     []api.StartCost
	api.Progress
}

// prediction is when a job will end. The leader's counts if it is of the present generation;
// one that has just begun is predicted by what was learnt before, or else by what it reports.
func prediction(learnt record.Speed, now standing) *api.Prediction {
	if x := learnt.Prediction; x != nil && (learnt.Generation >= now.generation || now.workers == 0) {
		return representable(api.Prediction{RemainingS: x.RemainingS, End: x.End, EndLow: &x.Low, EndHigh: &x.High, At: learnt.At})
	}
	left := now.StepsTotal - max(now.Step, now.BaseSteps, learnt.Step, learnt.BaseSteps)
	if now.StepsTotal <= 0 || left < 0 || now.workers == 0 {
		return nil
	}
	at, rest := now.since, goodput.Rest{Steps: left}
	if now.learnt {
		rest.Speed = now.speed
	}
	if now.StepsPerSecond > 0 && now.At != nil {
		at = *now.At
		if !now.learnt {
			rest.Speed = goodput.Estimate{PerSecond: now.StepsPerSecond}
		}
	} else {
		for _, c := range now.starts {
			if c.Workers == now.workers {
				rest.Wait = time.Duration(c.Seconds * float64(time.Second))
			}
		}
	}
	end, ok := goodput.PredictEnd(at, rest)
	if !ok {
		return nil
	}
	p := api.Prediction{RemainingS: end.At.Sub(at).Seconds(), End: end.At, At: at}
	if now.learnt {
		p.EndLow, p.EndHigh = &end.Low, &end.High
	}
	return representable(p)
}

// representable is a prediction as JSON can write it, without which all jobs would go with it.
func representable(p api.Prediction) *api.Prediction {
	unfit := func(t *time.Time) bool { return t != nil && (t.IsZero() || t.Year() >= lastYear || t.Year() < 0) }
	if unfit(&p.End) || unfit(&p.At) {
		return nil
	}
	if unfit(p.EndLow) || unfit(p.EndHigh) {
		p.EndLow, p.EndHigh = nil, nil
	}
	return &p
}

// lastYear is the first that JSON's times do not have: a job whose record says so
// would keep all others from being shown.
const lastYear = 10_000
