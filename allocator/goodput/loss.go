package goodput

import (
	"math"
	"slices"
)

// LossWindow is the mean of the losses that a job told over at least LossSteps steps.
type LossWindow struct {
	Step int64   // at which it ended
	Mean float64 // finite
	Told int64   // losses
}

const (
	// LossSteps is how many steps a window of losses takes at least (Wei and Shudo, section 5: "the
	// sum of every 100 iterations"; that of one says nothing).
	LossSteps = 100
	// lossTold is of how many losses at least it is the mean: a job tells one a second.
	lossTold = 4
	// MaxLossWindows is how many windows of a job are kept: its first, and its newest.
	MaxLossWindows = 9
	// lossOver is of how many of the newest windows the mean is compared with as many before.
	lossOver = 4
	// lossFlat is by which part of all of a job's fall that mean falls at least, if the job still
	// gains; by twice of it up, the loss rises.
	lossFlat = 0.01
)

// LossMeter makes windows of what the ranks of a job tell. Its zero value is ready; it is
// carried over from one generation to the next (Next).
type LossMeter struct {
	Windows []LossWindow // the first of all, and the newest, ascending in Step
	begun   bool
	step    int64 // at which the open window began
	sum     float64
	told    int64
	finite  int64 // told, when a number was told last
	since   int64 // bad ones told by then
	bad     int64
}

// Told is what all ranks together have told in a generation, up to a step.
type Told struct {
	Step int64
	Sum  float64 // of finite losses
	Told int64   // how many of those
	Bad  int64   // how many were not numbers, or not finite
}

// Fold takes in a report. What was told before the first one of a generation counts for no window.
func (m *LossMeter) Fold(t Told) {
	if m.bad = t.Bad; t.Told != m.finite || t.Bad < m.since {
		m.finite, m.since = t.Told, t.Bad
	}
	if !m.begun || t.Step < m.step || t.Told < m.told {
		m.begun, m.step, m.sum, m.told = true, t.Step, t.Sum, t.Told
		return
	}
	n := t.Told - m.told
	if t.Step-m.step < LossSteps || n < lossTold {
		return
	}
	mean := (t.Sum - m.sum) / float64(n)
	m.step, m.sum, m.told = t.Step, t.Sum, t.Told
	if math.IsNaN(mean) || math.IsInf(mean, 0) { // of a sum that is none
		return
	}
	m.Windows = append(m.Windows, LossWindow{Step: t.Step, Mean: mean, Told: n})
	if len(m.Windows) > MaxLossWindows {
		m.Windows = slices.Delete(m.Windows, 1, 2)
	}
}

// Next is the meter of the generation that goes on at a step: windows beyond it were of steps that are lost.
func (m *LossMeter) Next(step int64) LossMeter {
	windows := slices.DeleteFunc(slices.Clone(m.Windows), func(w LossWindow) bool { return w.Step > step })
	return LossMeter{Windows: windows}
}

// NotNumbers reports whether all that was told lately were no numbers.
func (m *LossMeter) NotNumbers() bool { return m.bad-m.since >= lossTold }

// Loss is where in its training a job is by its loss.
type Loss struct {
	// Fall is by which part of all of its fall so far the loss falls in LossSteps steps: near 1
	// for a young job, near 0 for one that converges. It does not depend on the loss's scale or level.
	Fall float64
	// Flat is why the loss does not tell that more steps gain anything; empty = they do.
	Flat string
}

// The values of Loss.Flat. A loss beyond record.MaxLoss would hide all others in a sum, and counts as no number.
const (
	LossConstant   = "its loss does not fall any more"
	LossRising     = "its loss rises"
	LossNotNumbers = "its loss is not a number, or beyond 1e9"
)

// LossRemedy is what a job's owner can do where its loss is flat; empty if it is not.
func LossRemedy(flat string) string {
	switch flat {
	case LossConstant:
		return "stop it if it has learnt enough; else look at its learning rate"
	case LossRising:
		return "look at its learning rate and its data; to go back, stop it and resume it from a checkpoint before the rise"
	case LossNotNumbers:
		return "what it has learnt is lost; stop it, and resume from a checkpoint before that, say with a lower learning rate"
	}
	return ""
}

// LossOf is what windows tell; false of fewer than two. The newest windows are compared with as
// many before them, as a single window is of few losses.
func LossOf(windows []LossWindow) (Loss, bool) {
	n := len(windows)
	if n < 2 {
		return Loss{}, false
	}
	over := min(lossOver, n/2)
	newer, older := windows[n-over:], windows[n-2*over:n-over]
	first, last := windows[0].Mean, meanLoss(newer)
	all, fall := first-last, meanLoss(older)-last
	// Rounding, relative to the size of what is told, is no fall.
	least := 1e-6 * max(math.Abs(first), math.Abs(last))
	switch {
	case all < -least, over == lossOver && fall < -2*lossFlat*all:
		return Loss{Flat: LossRising}, true
	case all <= least, over == lossOver && fall < lossFlat*all:
		return Loss{Flat: LossConstant}, true
	}
	steps := float64(max(1, newer[over-1].Step-older[over-1].Step)) / LossSteps
	return Loss{Fall: max(0, fall/all) / steps}, true
}

func meanLoss(windows []LossWindow) (mean float64) {
	for _, w := range windows {
		mean += w.Mean / float64(len(windows))
	}
	return mean
}
