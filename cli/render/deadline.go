package render

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// Answered says what a coordinator has answered to a job's deadline.
func Answered(j api.JobStatus, p View) string {
	a := j.Answer
	switch {
	case j.Deadline == nil:
		return "accepted"
	case a == nil && j.Phase == cluster.Failed:
		return "refused: " + j.Reason
	case a == nil:
		return fmt.Sprintf("accepted; its deadline %s is not promised: the coordinator, of an earlier version, answers none", p.clock(*j.Deadline))
	case a.By != nil && a.Ends != nil:
		return fmt.Sprintf("deadline %s is not promised, but %s is, within its grace, planned to end by %s: %s%s",
			p.clock(*j.Deadline), p.clock(*a.By), p.clock(*a.Ends), a.Why, offerWords(a.Offer, p))
	case a.Promised && a.Ends != nil:
		return fmt.Sprintf("deadline %s is promised, planned to end by %s; %s", p.clock(*j.Deadline), p.clock(*a.Ends), a.Why)
	case a.Promised:
		return fmt.Sprintf("deadline %s is promised; %s", p.clock(*j.Deadline), a.Why)
	}
	text := fmt.Sprintf("deadline %s is not promised: %s%s", p.clock(*j.Deadline), a.Why, offerWords(a.Offer, p))
	if j.Phase == cluster.Refused {
		return "refused: " + text
	}
	return "accepted; " + text
}

// offerWords says what could be promised instead.
func offerWords(o *api.DeadlineOffer, p View) string {
	if o == nil {
		return ""
	}
	offered := record.Offered{MaxWorkers: o.MaxWorkers, MinWorkers: o.MinWorkers, Steps: o.Steps}
	if o.Deadline != nil {
		offered.Deadline = *o.Deadline
	}
	return offered.Words(p.clock)
}

// deadlineState says in a word where a job's deadline stands; empty if it has none.
func deadlineState(j api.JobStatus) string {
	a := j.Answer
	switch {
	case j.Deadline == nil:
		return ""
	case j.Phase == cluster.Succeeded && !j.Since.After(*j.Deadline):
		return "kept"
	case j.Phase == cluster.Succeeded && !j.Since.After(j.Deadline.Add(grace(j))):
		return "late"
	case j.Phase == cluster.Refused:
		return "refused"
	case j.Ended:
		return "missed"
	case a == nil:
		return "not answered"
	case !a.Promised:
		return "not promised"
	case a.Lost != "":
		return "lost"
	case a.By != nil:
		return "promised late"
	}
	return "promised"
}

func grace(j api.JobStatus) time.Duration { return time.Duration(j.GraceS * float64(time.Second)) }

// deadlineText is the deadline on a job's page.
func (p View) deadlineText(j api.JobStatus) string {
	if j.Deadline == nil {
		return ""
	}
	text := p.clock(*j.Deadline)
	if j.GraceS > 0 {
		text += fmt.Sprintf(" with %s of grace", units.Span(grace(j)))
	}
	text += ", " + deadlineState(j)
	switch a := j.Answer; {
	case a == nil || j.Ended && j.Phase != cluster.Refused:
	case a.Lost != "":
		text += ": " + a.Lost
	case a.By != nil:
		text += fmt.Sprintf(", by %s: %s%s", p.clock(*a.By), a.Why, offerWords(a.Offer, p))
	default:
		text += ": " + a.Why + offerWords(a.Offer, p)
	}
	return text
}

// due is the deadline in the table of jobs.
func (p View) due(j api.JobStatus) string {
	if j.Deadline == nil {
		return "-"
	}
	return p.clock(*j.Deadline) + " " + deadlineState(j)
}
