package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/record"
)

// offered is an offer as it is recorded, to a job of so much work and so many steps.
func offered(in situation, v allocator.JobView, o admit.Offer, work float64) (out record.Offered) {
	if o.Deadline > 0 {
		out.Deadline = endingBy(in, v, o.Deadline)
	}
	if steps := in.Spec.Value.Steps; steps > 0 && work > 0 && o.Work > 0 {
		out.Steps = int64(float64(steps) * o.Work / work)
	}
	out.MaxWorkers, out.MinWorkers = o.Most, o.Least
	return out
}

// endingBy is the earliest moment by which an end can be promised that is planned so many seconds
// from now, as people say it.
func endingBy(in situation, v allocator.JobView, seconds float64) time.Time {
	from := time.Duration(seconds * float64(time.Second))
	most := from + from/(usualReserve-1) // so that a twentieth is left of it
	r := reserves(in, v, in.now.Add(most))
	if from += r[len(r)-1]; from > 10*time.Minute {
		return in.now.Add(from + time.Minute).Truncate(time.Minute)
	}
	return in.now.Add(from + time.Second).Truncate(time.Second)
}
