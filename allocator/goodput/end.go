package goodput

import (
	"math"
	"time"
)

// End is when a job ends if it keeps its workers: with nine in ten chances between Low and High.
type End struct{ At, Low, High time.Time }

// farthest is how far ahead an end is told.
const farthest = 10 * 365 * 24 * time.Hour

// Rest is what a job has still to do.
type Rest struct {
	Steps int64
	Speed Estimate
	Pace  float64       // the share of the time in which it does steps: evaluations go on as they have; 0 = all of it
	Wait  time.Duration // until the next of the steps begins, as after a start
}

// PredictEnd predicts when that will be done. False without a speed.
func PredictEnd(now time.Time, r Rest) (End, bool) {
	steps, speed, pace := r.Steps, r.Speed, r.Pace
	if !(speed.PerSecond > 0) || steps < 0 {
		return End{}, false
	}
	if !(pace > 0 && pace <= 1) {
		pace = 1
	}
	at := func(rate float64) time.Time {
		s := float64(steps) / (rate * pace)
		return now.Add(max(0, r.Wait) + time.Duration(min(s, farthest.Seconds())*float64(time.Second)))
	}
	e := End{At: at(speed.PerSecond), Low: at(math.Max(speed.High, speed.PerSecond)), High: at(math.Min(speed.Low, speed.PerSecond))}
	if speed.Low <= 0 {
		e.High = now.Add(farthest)
	}
	return e, true
}
