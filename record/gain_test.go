package record_test

import (
	"math"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func TestGainsArePredictedByTheCurveAndMeasuredByGenerations(t *testing.T) {
	t.Parallel()
	point := func(workers int, g cluster.Generation, rate float64) record.SpeedPoint {
		return record.SpeedPoint{Workers: workers, Generation: g, StepsPerSecond: rate, Batch: 64, Nodes: 1, Windows: 3}
	}
	s := record.Speed{
		Curve:  []record.CurvePoint{{Workers: 1, StepsPerSecond: 10}, {Workers: 2, StepsPerSecond: 16}, {Workers: 4}},
		Points: []record.SpeedPoint{point(1, 1, 5), point(1, 3, 10), point(2, 4, 12), point(4, 2, 20)},
	}
	for _, c := range []struct {
		what      string
		r         record.Rescale
		predicted float64
		measured  float64
	}{
		{"as the newest of the size before was", record.Rescale{Generation: 4, From: 1, To: 2}, 1.6, 1.2},
		{"the generation is not measured yet", record.Rescale{Generation: 5, From: 1, To: 2}, 1.6, 0},
		{"what came later does not count", record.Rescale{Generation: 2, From: 1, To: 4}, 0, 4},
		{"nothing is known of the size before", record.Rescale{Generation: 4, From: 8, To: 2}, 0, 0},
	} {
		if p, m := s.PredictedGain(c.r.From, c.r.To), s.MeasuredGain(c.r); math.Abs(p-c.predicted) > 1e-9 || math.Abs(m-c.measured) > 1e-9 {
			t.Errorf("%s: predicted %g, measured %g; want %g and %g", c.what, p, m, c.predicted, c.measured)
		}
	}
	s.Points[2].Batch = 128
	if m := s.MeasuredGain(record.Rescale{Generation: 4, From: 1, To: 2}); m != 0 {
		t.Errorf("of steps of another batch: %g", m)
	}
}
