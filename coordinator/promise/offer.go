package promise

import (
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/record"
)

// offered is an offer as it is recorded, to a job of so much work and so many steps.
func (c *Cluster) offered(j Job, o admit.Offer, work float64) (out record.Offered) {
	if o.Deadline > 0 {
		out.Deadline = c.endingBy(j, o.Deadline)
	}
	if steps := j.Spec.Steps; steps > 0 && work > 0 && o.Work > 0 {
		out.Steps = int64(float64(steps) * o.Work / work)
	}
	out.MaxWorkers, out.MinWorkers = o.Most, o.Least
	return out
}

// endingBy is the earliest moment by which an end can be promised that is planned so many seconds
// from now, as people say it.
func (c *Cluster) endingBy(j Job, seconds float64) time.Time {
	from := time.Duration(seconds * float64(time.Second))
	most := from + from/(usualReserve-1) // so that a twentieth is left of it
	r := c.reserves(j, c.Now.Add(most))
	if from += r[len(r)-1]; from > 10*time.Minute {
		return c.Now.Add(from + time.Minute).Truncate(time.Minute)
	}
	return c.Now.Add(from + time.Second).Truncate(time.Second)
}
