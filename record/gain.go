package record

import "github.com/bellows-ml/bellows/cluster"

// PredictedGain is by which factor a change of size is predicted to change the speed, in
// steps a second, as far as it was learnt; 0 = unknown.
func (s Speed) PredictedGain(from, to int) float64 {
	var before, after float64
	for _, p := range s.Curve {
		switch p.Workers {
		case from:
			before = p.StepsPerSecond
		case to:
			after = p.StepsPerSecond
		}
	}
	return factor(before, after)
}

// MeasuredGain is by which factor the change of size that made the generation has changed the
// speed: what it was measured to do, over what the newest generation of the other size did
// before. 0 = one of the two was not measured.
func (s Speed) MeasuredGain(r Rescale) float64 {
	var before, after SpeedPoint
	for _, p := range s.Points {
		switch {
		case p.Workers == r.To && p.Generation == r.Generation:
			after = p
		case p.Workers == r.From && p.Generation < r.Generation && p.Generation >= before.Generation:
			before = p
		}
	}
	if before.Batch != after.Batch {
		return 0 // other steps than before
	}
	return factor(before.StepsPerSecond, after.StepsPerSecond)
}

func factor(before, after float64) float64 {
	if !rate(before) || !rate(after) {
		return 0
	}
	return after / before
}

// LastResize is the newest change of the job's size; false if there was none.
func (v *JobView) LastResize() (last Rescale, ok bool) {
	newest := cluster.Generation(0)
	for g, r := range v.Rescales {
		if r.Value.From > 0 && r.Value.From != r.Value.To && g >= newest {
			newest, last, ok = g, r.Value, true
		}
	}
	return last, ok
}
