package forecast_test

import (
	"testing"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/record"
)

func speed(model string, workers int, rate float64) record.SpeedPoint {
	return record.SpeedPoint{Workers: workers, Nodes: 1, Model: model, StepsPerSecond: rate, Low: rate, High: rate, Windows: 9}
}

// kinds are what users' jobs of some kinds have shown.
func kinds(of ...[]record.SpeedPoint) map[uint32]map[string]record.Versioned[record.JobKind] {
	out := map[uint32]map[string]record.Versioned[record.JobKind]{}
	for i, points := range of {
		out[uint32(i)] = map[string]record.Versioned[record.JobKind]{"k": {Value: record.JobKind{Points: points}}}
	}
	return out
}

// What was measured on a model counts there as it is; elsewhere it counts by what the models' ratio
// makes of it, and for little.
func TestPointsOnAModel(t *testing.T) {
	ratio := func(from, to string) float64 {
		if from != "k80" || to != "v100" {
			t.Errorf("asked for %s → %s", from, to)
		}
		return 3
	}
	own, kind := []record.SpeedPoint{speed("k80", 1, 10), speed("k80", 2, 18)}, []record.SpeedPoint{speed("k80", 4, 30)}
	points, ofKind := forecast.PointsOn(own, kind, "k80", ratio)
	if len(points) != 2 || len(ofKind) != 1 || points[0].PerSecond != 10 || points[1].Windows != 9 {
		t.Errorf("where it was measured: %+v, kind %+v", points, ofKind)
	}
	points, ofKind = forecast.PointsOn(own, kind, "v100", ratio)
	if len(points) != 2 || len(ofKind) != 1 || points[0].PerSecond != 30 || points[0].Low != 30 || points[1].Windows != 1 || ofKind[0].PerSecond != 90 {
		t.Errorf("where nothing was: %+v, kind %+v", points, ofKind)
	}
	points, ofKind = forecast.PointsOn(own, []record.SpeedPoint{speed("v100", 1, 50)}, "v100", ratio)
	if len(points) != 0 || len(ofKind) != 1 || ofKind[0].PerSecond != 50 {
		t.Errorf("where its kind was: %+v, kind %+v", points, ofKind)
	}
	if own[0].StepsPerSecond != 10 {
		t.Error("the record itself was changed")
	}
}

// How fast a model is follows from kinds that were measured on two models with as many workers.
func TestLevels(t *testing.T) {
	if l := forecast.Levels(kinds([]record.SpeedPoint{speed("k80", 1, 10)}, []record.SpeedPoint{speed("v100", 1, 90)})); len(l) != 0 {
		t.Errorf("of kinds that were on one each: %v", l)
	}
	if l := forecast.Levels(kinds([]record.SpeedPoint{speed("k80", 1, 10), speed("v100", 2, 90)})); len(l) != 0 {
		t.Errorf("of sizes that differ: %v", l)
	}
	l := forecast.Levels(kinds(
		[]record.SpeedPoint{speed("k80", 1, 10), speed("v100", 1, 30), speed("v100", 2, 55)},
		[]record.SpeedPoint{speed("k80", 2, 10), speed("v100", 2, 50)},
		[]record.SpeedPoint{speed("k80", 1, 10), speed("v100", 1, 900)},
		[]record.SpeedPoint{speed("k80", 1, 0), speed("v100", 1, 1)},
	))
	if len(l) != 2 || l["v100"] == 0 || l["v100"]/l["k80"] != 5 {
		t.Errorf("%v, want the median: 5 times as fast", l)
	}
}
