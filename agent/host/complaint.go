package host

import "time"

// remindEvery is how often a trouble is logged again that is looked at every few
// seconds and may last for days.
const remindEvery = 10 * time.Minute

// complaint is what was last logged of a trouble that is looked at again and again:
// it is logged when it begins, when it changes, and now and then while it lasts. The
// zero complaint is of no trouble.
type complaint struct {
	text string
	at   time.Time
}

// due reports whether the trouble is to be logged now, and notes that it is.
func (c *complaint) due(err error, now time.Time) bool {
	if text := err.Error(); text != c.text || now.Sub(c.at) >= remindEvery {
		*c = complaint{text, now}
		return true
	}
	return false
}

// over notes that the trouble has ended, and reports whether it was ever logged.
func (c *complaint) over() bool {
	was := *c != complaint{}
	*c = complaint{}
	return was
}
