package units_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/internal/units"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 2*3600)
	now := time.Date(2026, 3, 1, 17, 0, 30, 0, zone)
	for text, want := range map[string]time.Time{
		"18:00":                now.Add(59*time.Minute + 30*time.Second),
		"17:00":                time.Date(2026, 3, 2, 17, 0, 0, 0, zone), // it is over for today
		"+2h":                  now.Add(2 * time.Hour),
		"90m":                  now.Add(90 * time.Minute),
		"2026-03-01T16:00:00Z": time.Date(2026, 3, 1, 16, 0, 0, 0, time.UTC),
	} {
		if got, err := units.Deadline(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "25:00", "-1h", "2026-03-01T14:00:00Z"} {
		if got, err := units.Deadline(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
