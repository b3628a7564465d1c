package speed

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/bellows-ml/bellows/allocator/forecast"
)

// learn makes the job's model of what was measured of it and of its kind, anew only where that has changed.
func (k Known) learn() *learned {
	j := k.steps()
	l := k.all.seen[k.ID]
	if l == nil || l.spec != k.Spec.Mod {
		l = &learned{spec: k.Spec.Mod, speed: -1, name: k.Spec.Value.KindName()}
		k.all.seen[k.ID] = l
	}
	kind, now := k.kind(l.name), k.lively()
	if l.speed == k.Speed.Mod && l.kind == kind.Mod && l.live == now && l.perNode == j.PerNode && l.ranges == j.Range && slices.Equal(l.sizes, k.Sizes) {
		return l
	}
	l.speed, l.kind, l.live, l.perNode, l.ranges, l.sizes = k.Speed.Mod, kind.Mod, now, j.PerNode, j.Range, k.Sizes
	l.Learned, l.on = forecast.Learned{}, nil
	if points := k.measured(); len(points)+len(kind.Value.Points) > 0 {
		j.Void, j.Range.Micro = now.void, k.Spec.Value.MicroBatch()
		j.Points, j.Kind = forecast.PointsOf(points, kind.Value.Points)
		l.Learned = forecast.Learn(j)
	}
	return l
}

// lively is what the running generation has shown.
func (k Known) lively() live {
	if k.run == nil {
		return live{}
	}
	rate, _ := k.run.meter.Rate()
	return live{generation: k.run.generation, windows: bits.Len(uint(rate.Windows)), void: k.run.meter.Fault().Void}
}

// learnOn makes the job's model on devices of one model; known is what learn has just told.
func (k Known) learnOn(known *learned, model string) forecast.Learned {
	if k.all.readKinds(k.mirror); !maps.Equal(known.levels, k.all.levels) {
		known.levels, known.on = k.all.levels, nil
	}
	if l, ok := known.on[model]; ok {
		return l
	}
	var l forecast.Learned
	kind := k.kind(known.name)
	if points := k.measured(); len(points)+len(kind.Value.Points) > 0 {
		j := k.steps()
		j.Void, j.Range.Micro = known.live.void, k.Spec.Value.MicroBatch()
		j.Points, j.Kind = forecast.PointsOn(points, kind.Value.Points, model, func(from, to string) float64 {
			return k.all.level(k.mirror, to) / k.all.level(k.mirror, from)
		})
		l = forecast.Learn(j)
	}
	if known.on == nil {
		known.on = map[string]forecast.Learned{}
	}
	known.on[model] = l
	return l
}
