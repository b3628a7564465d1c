package units

import (
	"fmt"
	"time"
)

// Ago reads a time that has passed, with its date, or how long ago it was.
func Ago(text string, now time.Time) (time.Time, error) {
	t, err := Since(text, now)
	if err == nil && t.After(now) {
		return time.Time{}, fmt.Errorf("%q: it is yet to come", text)
	}
	return t, err
}

// Since is Ago for a time that may be yet to come, as by the clock of another node.
func Since(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%q: use a time such as %s, or how long ago such as 2h30m",
			text, now.Add(-2*time.Hour).UTC().Format(time.RFC3339))
	}
	return now.Add(-d), nil
}

// Deadline reads a time with its date, a time of day, which is the next one on this
// machine's clock, or how long from now.
func Deadline(text string, now time.Time) (*time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if clock, clockErr := time.ParseInLocation("15:04", text, now.Location()); clockErr == nil {
			t = time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
			if !t.After(now) {
				t = t.AddDate(0, 0, 1)
			}
		} else if d, durationErr := time.ParseDuration(text); durationErr == nil {
			t = now.Add(d)
		} else {
			return nil, fmt.Errorf("%q: use a time such as %s, a time of day such as 18:00, or a time from now such as +2h30m",
				text, now.Add(2*time.Hour).UTC().Format(time.RFC3339))
		}
	}
	if !t.After(now) {
		return nil, fmt.Errorf("%q: it has passed already: choose a later one", text)
	}
	t = t.UTC().Truncate(time.Second)
	return &t, nil
}
