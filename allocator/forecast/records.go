package forecast

import (
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
