package speed

import (
	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/record"
)

// lossWindows are all that are known of the job.
func (k Known) lossWindows() (out []record.LossWindow) {
	if k.run == nil {
		return k.Speed.Value.Losses
	}
	for _, w := range k.run.loss.Windows {
		out = append(out, record.LossWindow{Step: w.Step, Mean: w.Mean, Told: w.Told})
	}
	return out
}

// lossFlat is why the job's loss does not tell that more steps gain anything; empty = it does, or that is not known.
func (k Known) lossFlat() string {
	if l := k.Loss(); l != nil {
		return l.Flat
	}
	return ""
}

// Loss is where in its training the job is by its loss; nil where that is not known.
func (k Known) Loss() *allocator.Loss {
	windows := forecast.LossesOf(k.Speed.Value.Losses)
	if k.run != nil {
		if windows = k.run.loss.Windows; k.run.loss.NotNumbers() {
			return &allocator.Loss{Flat: goodput.LossNotNumbers}
		}
	}
	l, ok := goodput.LossOf(windows)
	if !ok {
		return nil
	}
	return &allocator.Loss{Fall: l.Fall, Flat: l.Flat}
}
