package record_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// An offer is told as the options that take it, with the deadline as people read it where there is a clock.
func TestOffersAreOptions(t *testing.T) {
	at := time.Date(2026, 1, 1, 14, 0, 0, 0, time.FixedZone("", 3600))
	clock := func(at time.Time) string { return at.Format("15:04") }
	for _, c := range []struct {
		offer *record.Offered
		clock func(time.Time) string
		want  string
	}{
		{nil, nil, ""},
		{&record.Offered{}, clock, ""},
		{&record.Offered{Deadline: at}, nil, "; it could be promised with --deadline 2026-01-01T13:00:00Z"},
		{&record.Offered{Deadline: at, Steps: 7}, clock, "; it could be promised with --deadline 2026-01-01T13:00:00Z (14:00), or with --steps 7"},
		{&record.Offered{MaxWorkers: 8, MinWorkers: 1}, nil, "; it could be promised with --max 8, or with --min 1"},
	} {
		if got := c.offer.Words(c.clock); got != c.want {
			t.Errorf("%+v: %q, want %q", c.offer, got, c.want)
		}
	}
}
