package render

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/units"
)

// View is what the rendering of a result depends on besides the result.
type View struct {
	Style output.Style
	Now   time.Time
	Zone  *time.Location
}

// clock says a moment: its time of day, with its date unless that is today's.
func (p View) clock(t time.Time) string {
	t = t.In(p.Zone)
	if t.Format(time.DateOnly) == p.Now.In(p.Zone).Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// ago says how long something has been.
func (p View) ago(t time.Time) string { return units.Span(p.Now.Sub(t)) }

// left says how much of its time limit a job has left.
func (p View) left(j api.JobStatus) string {
	switch {
	case j.TimeLimitS == 0:
		return "-"
	case j.LimitAt != nil:
		return units.Span(j.LimitAt.Sub(p.Now))
	}
	return units.Span(time.Duration((j.TimeLimitS - j.RanS) * float64(time.Second)))
}

// limitText says what a job's time limit is and how much of it is left.
func (p View) limitText(j api.JobStatus) string {
	if j.TimeLimitS == 0 {
		return ""
	}
	text := fmt.Sprintf("%s of running, %s left", units.Span(time.Duration(j.TimeLimitS*float64(time.Second))), p.left(j))
	if j.LimitAt != nil {
		text += ", until " + p.clock(*j.LimitAt) + " if nothing interrupts it"
	}
	return text
}
