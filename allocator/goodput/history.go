package goodput

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Ended is how a prediction came out: how long the job was to take from then on if it
// kept its workers, and how long it took.
type Ended struct{ Predicted, Actual time.Duration }

// History is how predictions came out, by Predicted.
type History []Ended

// NewHistory sorts predictions; those that cannot be are left out.
func NewHistory(ended []Ended) History {
	h := slices.DeleteFunc(slices.Clone(ended), func(e Ended) bool { return e.Predicted <= 0 || e.Actual < 0 })
	slices.SortStableFunc(h, func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Predicted, b.Predicted), cmp.Compare(a.Actual, b.Actual))
	})
	return h
}

const (
	// alike is how many predictions are looked at: those of about the same time, as the
	// longer a job has still to go, the likelier it is that its size changes before its end.
	alike = 40
	// enough is of how many the twentieth part can be told.
	enough = 20
)

// Widen makes the interval of a prediction as wide as predictions of about the same
// time were off: what a speed's interval cannot know is that the job will be given
// other sizes, or that its work is other than its owner has said. The interval
// reaches from the 5th to the 95th percentile of what was, and no less far than before.
func (h History) Widen(now time.Time, e End) End {
	left := e.At.Sub(now)
	if len(h) < enough || left <= 0 {
		return e
	}
	var off []float64
	for _, x := range h.about(left) {
		off = append(off, float64(x.Actual+slack)/float64(x.Predicted+slack))
	}
	slices.Sort(off)
	at := func(part float64) time.Time {
		// The rank is that of n+1 equally likely places for the next one.
		i := int(math.Round(part*float64(len(off)+1))) - 1
		ratio := off[max(0, min(len(off)-1, i))]
		return now.Add(time.Duration(math.Min(float64(left+slack)*ratio, float64(farthest))) - slack)
	}
	if low := at(0.05); low.Before(e.Low) {
		e.Low = low
	}
	if high := at(0.95); high.After(e.High) {
		e.High = high
	}
	if e.Low.Before(now) {
		e.Low = now
	}
	return e
}

// slack keeps seconds of reporting from counting as a multiple of nearly nothing.
const slack = 10 * time.Second

// about are the predictions nearest to a time, by its logarithm.
func (h History) about(left time.Duration) History {
	i, _ := slices.BinarySearchFunc(h, left, func(e Ended, d time.Duration) int { return cmp.Compare(e.Predicted, d) })
	low, high := i, i
	far := func(k int) float64 { return math.Abs(math.Log(float64(h[k].Predicted) / float64(left))) }
	for high-low < min(alike, len(h)) {
		if low > 0 && (high == len(h) || far(low-1) <= far(high)) {
			low--
		} else {
			high++
		}
	}
	return h[low:high]
}
