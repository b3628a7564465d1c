package policy

import (
	"math"
	"time"

	"github.com/bellows-ml/bellows/allocator"
)

const (
	// attainedLevel is the ratio of the levels of attained service.
	attainedLevel = 4
	// stranger is how much it counts that a job may be like none before, beside one that it may be like.
	stranger = 0.5
)

// expectedWork is what a job of unknown work counts as: the reciprocal of its Gittins
// index, which orders such jobs for the least mean flow time (Aalto, Ayesta and Righter 2009):
//
//	the least over Δ of  E[min(R, Δ)] / P(R ≤ Δ)
//
// for its work left R. With known work that is the work left. R is as likely to be each
// of what jobs like it had left when they had done as much, and, counting for one half
// of such a job, as with durations that become less likely to end the longer they
// last, P(R > x) = a/(a+x), with the attained service a. Without jobs like it the index is 1/a:
// the least attained go first. a is counted by levels, attainedLevel to the power of
// whole numbers, in hours, so that jobs of one level are equals, which do not take turns (Tiresias, Gu et al., NSDI 2019).
func expectedWork(j allocator.JobView) time.Duration {
	level := unknownWork
	for level*attainedLevel <= j.Service {
		level *= attainedLevel
	}
	n, a := float64(len(j.Alike)), level.Seconds()
	least := a * (n + stranger) / stranger // Δ → 0
	sum := 0.0
	for i, left := range j.Alike { // Δ = left, ascending
		r := left.Seconds()
		sum += r
		spent := sum + float64(r*(n-float64(i+1))) + float64(stranger*a*math.Log1p(r/a))
		ends := float64(i+1) + stranger*r/(a+r)
		least = min(least, spent/ends)
	}
	return time.Duration(min(least, longestWork.Seconds()) * float64(time.Second))
}
