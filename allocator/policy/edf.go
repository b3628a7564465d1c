package policy

import "github.com/bellows-ml/bellows/allocator"

// edf runs the jobs with the earliest deadlines, each at its full size; those
// without a deadline come last, in the order of submission. It is optimal for
// one device and no misses (Liu and Layland, JACM 20(1), 1973), and known to
// collapse when deadlines cannot all be kept, as it works on those that are
// lost already: the baseline of ElasticFlow (Gu et al., ASPLOS 2023, section 6).
//
// Jobs that were promised their deadlines come before all others in the slots in
// which the promise says so; the promise is planned with full sizes.
func edf() promising {
	return promising{ranked{
		name: "edf", why: "next by deadline", timeless: true,
		before: func(x, y allocator.JobView) int {
			switch {
			case x.Deadline.IsZero() != y.Deadline.IsZero():
				return compareBools(x.Deadline.IsZero(), y.Deadline.IsZero())
			default:
				return x.Deadline.Compare(y.Deadline)
			}
		},
	}}
}
