package speed

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/forecast"
)

// Foresee forecasts the job: by what is recorded of its speed, and how far it is now. overdue: it has had
// nothing left for longer than Finished allows.
func (k Known) Foresee(overdue bool) forecast.Forecast {
	j, known := k.forecast()
	done, told := k.StepsDone()
	j.Done, j.Reported, j.Void, j.Overdue = done, told || k.Committed.Exists() || k.all.off, k.Void(), overdue
	j.Trained, j.Service = k.Trained, k.Service
	return known.Of(j)
}

// ForeseeAtStart forecasts the job as it was when it came, with what is known of it now.
func (k Known) ForeseeAtStart() forecast.Forecast {
	j, known := k.forecast()
	j.Reported = true // of step 0
	return known.Of(j)
}

// forecast is what every forecast of the job rests on.
func (k Known) forecast() (forecast.Job, *learned) {
	spec := &k.Spec.Value
	j, known := k.steps(), k.learn()
	kind := k.kind(known.name).Value
	j.Steps, j.ETA = spec.Steps, time.Duration(spec.ETA)
	j.Starts, j.KindStarts, j.KindTook = forecast.StartsOf(k.Speed.Value.Starts), forecast.StartsOf(kind.Starts), forecast.TookOf(kind.Lengths)
	if !k.all.off {
		j.Fleet, j.FleetTook = k.all.fleetStart(k.mirror), k.all.fleetTook(k.mirror)
	}
	return j, known
}

// SpanLoss is the share of its speed that the job loses with so many workers on several nodes; false if that is not known.
func (k Known) SpanLoss(workers int) (float64, bool) { return k.learn().SpanLoss(workers) }

// OnModels is how the job does on each of these models of devices. See ADR 56.
func (k Known) OnModels(models []string) (out []allocator.OnModel) {
	known := k.learn()
	here := devicesModel(k.mirror, k.world())
	for _, m := range models {
		j := k.steps()
		if m != here {
			j.In = forecast.World{}
		}
		l := k.learnOn(known, m)
		f := l.Of(j)
		x := allocator.OnModel{
			Model: m, Speeds: f.Speeds, Careful: f.Careful(), Batches: f.Batches, Staying: f.Staying, Fastest: f.Fastest,
			Preferred: k.Spec.Value.Where.Prefers(m),
		}
		switch {
		case known.One() > 0 && l.One() > 0:
			x.Rate = l.One() / known.One()
		case !k.all.off:
			x.Rate = k.all.level(k.mirror, m)
		}
		out = append(out, x)
	}
	return out
}
