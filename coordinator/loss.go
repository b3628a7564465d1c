package coordinator

import (
	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/record"
)

// lossWindows are all that are known of the job.
func lossWindows(in situation) (out []record.LossWindow) {
	m := in.measures.of[in.ID]
	if m == nil || m.generation != in.number() {
		return in.Speed.Value.Losses
	}
	for _, w := range m.loss.Windows {
		out = append(out, record.LossWindow{Step: w.Step, Mean: w.Mean, Told: w.Told})
	}
	return out
}

// lossFlat is why the job's loss does not tell that more steps gain anything; empty = it does, or that is not known.
func lossFlat(in situation) string {
	if l := lossOf(in); l != nil {
		return l.Flat
	}
	return ""
}

// lossOf is where in its training the job is by its loss; nil where that is not known.
func lossOf(in situation) *allocator.Loss {
	windows := forecast.LossesOf(in.Speed.Value.Losses)
	if m := in.measures.of[in.ID]; m != nil && m.generation == in.number() {
		if windows = m.loss.Windows; m.loss.NotNumbers() {
			return &allocator.Loss{Flat: goodput.LossNotNumbers}
		}
	}
	l, ok := goodput.LossOf(windows)
	if !ok {
		return nil
	}
	return &allocator.Loss{Fall: l.Fall, Flat: l.Flat}
}
