package forecast

import (
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// PointsOf are a job's measurements and its kind's, as far as they are of one model of devices: that
// on which the job was measured last, or else its kind.
func PointsOf(own, kind []record.SpeedPoint) (points, kindPoints []goodput.Point) {
	model, known := modelOf(own)
	if !known {
		model, _ = modelOf(kind)
	}
	return ofModel(own, model), ofModel(kind, model)
}

// PointsOn are a job's measurements and its kind's on one model of devices. Where nothing was
// measured on it, what PointsOf tells counts, by as much faster as ratio says that devices of this model are.
func PointsOn(own, kind []record.SpeedPoint, model string, ratio func(from, to string) float64) (points, kindPoints []goodput.Point) {
	points, kindPoints = ofModel(own, model), ofModel(kind, model)
	if len(points)+len(kindPoints) > 0 {
		return points, kindPoints
	}
	from, known := modelOf(own)
	if !known {
		from, _ = modelOf(kind)
	}
	points, kindPoints = PointsOf(own, kind)
	by := ratio(from, model)
	for _, list := range [][]goodput.Point{points, kindPoints} {
		for i := range list {
			p := &list[i]
			p.PerSecond, p.Low, p.High, p.Windows = p.PerSecond*by, p.Low*by, p.High*by, 1
		}
	}
	return points, kindPoints
}

// Levels is how fast one device of each model is, by what jobs of the same kind have shown on
// several: the median over the kinds, relative to the model that most of them have been on. What is not in it is unknown.
func Levels(kinds map[uint32]map[string]record.Versioned[record.JobKind]) map[string]float64 {
	ratios, seen := map[[2]string][]float64{}, map[string]int{}
	for _, of := range kinds {
		for _, k := range of {
			at := oneOf(k.Value.Points)
			for m, x := range at {
				seen[m]++
				for n, y := range at {
					if m != n {
						ratios[[2]string{m, n}] = append(ratios[[2]string{m, n}], y/x)
					}
				}
			}
		}
	}
	base := ""
	for _, m := range slices.Sorted(maps.Keys(seen)) {
		if base == "" || seen[m] > seen[base] {
			base = m
		}
	}
	levels := map[string]float64{}
	for _, m := range slices.Sorted(maps.Keys(seen)) {
		if found := ratios[[2]string{base, m}]; len(found) > 0 {
			slices.Sort(found)
			levels[m] = found[len(found)/2]
		}
	}
	if len(levels) > 0 {
		levels[base] = 1
	}
	return levels
}

// oneOf is the speed of the smallest world that was measured on all of several models, by
// model; none where there is no such world.
func oneOf(points []record.SpeedPoint) map[string]float64 {
	of, models := map[int]map[string]float64{}, map[string]bool{}
	for _, p := range points {
		if !(p.StepsPerSecond > 0) {
			continue
		}
		models[p.Model] = true
		if of[p.Workers] == nil {
			of[p.Workers] = map[string]float64{}
		}
		of[p.Workers][p.Model] = p.StepsPerSecond
	}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if len(models) > 1 && len(of[k]) == len(models) {
			return of[k]
		}
	}
	return nil
}

// modelOf is the device model on which the newest was measured; false if there are none.
func modelOf(points []record.SpeedPoint) (model string, known bool) {
	newest := cluster.Generation(0)
	for _, p := range points {
		if p.Generation >= newest {
			newest, model = p.Generation, p.Model
		}
	}
	return model, len(points) > 0
}

func ofModel(points []record.SpeedPoint, model string) (out []goodput.Point) {
	for _, p := range points {
		if p.Model == model {
			out = append(out, goodput.Point{
				Workers: p.Workers, Nodes: p.Nodes, Batch: p.Batch, PerSecond: p.StepsPerSecond, Low: p.Low, High: p.High, Windows: p.Windows,
			})
		}
	}
	return out
}

// StartsOf are the recorded costs of starts.
func StartsOf(points []record.StartPoint) (out []Start) {
	for _, p := range points {
		out = append(out, Start{Workers: p.Workers, Took: seconds(p.Seconds)})
	}
	return out
}

// HistoryOf is how predictions came out of the jobs of all kinds.
func HistoryOf(kinds map[uint32]map[string]record.Versioned[record.JobKind]) goodput.History {
	var all []goodput.Ended
	for _, of := range kinds {
		for _, k := range of {
			for _, e := range k.Value.Ends {
				all = append(all, goodput.Ended{Predicted: seconds(e.PredictedS), Actual: seconds(e.ActualS)})
			}
		}
	}
	return goodput.NewHistory(all)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// LossesOf are the windows of losses that a job's record has.
func LossesOf(recorded []record.LossWindow) (out []goodput.LossWindow) {
	for _, w := range recorded {
		out = append(out, goodput.LossWindow{Step: w.Step, Mean: w.Mean, Told: w.Told})
	}
	return out
}
