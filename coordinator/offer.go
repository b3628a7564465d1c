package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/record"
)

// reserve is the part of the time to a deadline that a promise keeps in reserve: its
// end is planned so much earlier.
const reserve = 20

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

// offerText says an offer in words.
func offerText(o *record.Offered) string {
	if o == nil {
		return ""
	}
	var parts []string
	if !o.Deadline.IsZero() {
		parts = append(parts, "--deadline "+o.Deadline.UTC().Format(time.RFC3339))
	}
	if o.MaxWorkers > 0 {
		parts = append(parts, fmt.Sprintf("--max %d", o.MaxWorkers))
	}
	if o.MinWorkers > 0 {
		parts = append(parts, fmt.Sprintf("--min %d", o.MinWorkers))
	}
	if o.Steps > 0 {
		parts = append(parts, fmt.Sprintf("--steps %d", o.Steps))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; it could be promised with " + strings.Join(parts, ", or with ")
}
