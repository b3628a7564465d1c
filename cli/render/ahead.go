package render

import (
	"fmt"
	"io"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/units"
)

// starts says in the table of jobs in how long a job that waits will start, as predicted.
func (p View) starts(j api.JobStatus) string {
	s := j.Start
	switch {
	case s == nil:
		return "-"
	case s.Never:
		return "never"
	case s.At == nil && s.Until != nil:
		return "> " + p.until(*s.Until)
	case s.At == nil:
		return "-"
	case s.Low == nil:
		return p.until(*s.At)
	case s.High == nil:
		return fmt.Sprintf("%s (from %s)", p.until(*s.At), p.until(*s.Low))
	}
	return fmt.Sprintf("%s (%s-%s)", p.until(*s.At), p.until(*s.Low), p.until(*s.High))
}

// startText says on a page when a job will start; empty if that cannot be said.
func (p View) startText(s *api.PredictedStart) string {
	switch {
	case s == nil:
		return ""
	case s.Never:
		return "not on the cluster as it is: " + s.Why
	case s.At == nil && s.Until != nil:
		text := fmt.Sprintf("later than %s, in %s: that is how far was looked", p.clock(*s.Until), p.until(*s.Until))
		if s.Low != nil {
			text += fmt.Sprintf("; hardly before %s", p.clock(*s.Low))
		}
		return text
	case s.At == nil:
		return ""
	}
	text := fmt.Sprintf("%s, in %s, with %s", p.clock(*s.At), p.until(*s.At), units.Count(s.Workers, "worker"))
	switch {
	case s.Low == nil:
	case s.High != nil:
		text += fmt.Sprintf("; nine times in ten between %s and %s", p.clock(*s.Low), p.clock(*s.High))
	case s.Until != nil:
		text += fmt.Sprintf("; hardly before %s, and maybe later than %s", p.clock(*s.Low), p.clock(*s.Until))
	}
	return text
}

// DryRun writes what would become of a job.
func DryRun(w io.Writer, r api.DryRunReply, p View) error {
	out := &jobPage{View: p, w: w}
	out.printf("%s  %s\n", p.Style.Paint(output.Bold, r.Name), "dry run: nothing is submitted")
	if r.Refused {
		out.field("refused", "for its deadline; what follows is without a promise")
	}
	out.field("starts", p.startText(r.Start))
	for _, s := range r.Shrinks {
		to := units.Count(s.To, "worker")
		if s.To == 0 {
			to = "waiting"
		}
		out.field("makes room", fmt.Sprintf("%s, from %s to %s", s.Job, units.Count(s.From, "worker"), to))
	}
	out.field("ends", p.endText(r))
	if r.Deadline != nil {
		out.field("deadline", p.clock(*r.Deadline)+", "+holdsText(r, p))
	}
	out.field("decides", fmt.Sprintf("policy %s of %s", r.Policy, r.Leader))
	return out.err
}

// endText says when the job would end.
func (p View) endText(r api.DryRunReply) string {
	guess := ""
	if r.WorkUnknown {
		guess = "; hardly more than a guess, as nothing is known of how long it takes: no job of its kind has run yet, and --eta is not given"
	}
	switch {
	case r.Start == nil || r.Start.Never:
		return ""
	case r.End == nil:
		return "not known" + guess
	case r.EndLow == nil || r.EndHigh == nil:
		return fmt.Sprintf("%s, in %s, or far later", p.clock(*r.End), p.until(*r.End)) + guess
	}
	return fmt.Sprintf("%s, in %s; nine times in ten between %s and %s", p.clock(*r.End), p.until(*r.End), p.clock(*r.EndLow), p.clock(*r.EndHigh)) + guess
}

// holdsText says whether the deadline would hold.
func holdsText(r api.DryRunReply, p View) string {
	text := map[string]string{
		api.HoldsPromised:  "would be promised",
		api.HoldsLate:      "would not be promised, but, within its grace,",
		api.HoldsLikely:    "not promised, but it would end before it",
		api.HoldsUncertain: "not promised, and it may end later",
		api.HoldsUnlikely:  "not promised, and it would end later",
	}[r.DeadlineHolds]
	if r.Answer != nil && r.Answer.By != nil {
		text += " " + p.clock(*r.Answer.By) + " would"
	}
	if r.Answer != nil {
		text += ": " + r.Answer.Why + offerWords(r.Answer.Offer, p)
	}
	return text
}
