package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/record"
)

// reserve is the part of the time to a deadline that a promise keeps in reserve: its
// end is planned so much earlier.
const reserve = 20

// planned is when an end is planned at the latest that is promised by a moment.
func planned(now, by time.Time) time.Time { return by.Add(-by.Sub(now) / reserve) }

// offered is an offer as it is recorded.
func offered(in situation, o admit.Offer, work float64, steps int64) (out record.Offered) {
	if o.Deadline > 0 {
		from := time.Duration(o.Deadline * float64(time.Second))
		from += from / (reserve - 1) // so that the reserve is left of it
		out.Deadline = in.now.Add(from + time.Second).Truncate(time.Second)
		if from > 10*time.Minute {
			out.Deadline = in.now.Add(from + time.Minute).Truncate(time.Minute)
		}
	}
	if steps > 0 && work > 0 && o.Work > 0 {
		out.Steps = int64(float64(steps) * o.Work / work)
	}
	out.MaxWorkers, out.MinWorkers = o.Most, o.Least
	return out
}
