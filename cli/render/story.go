package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record/reason"
)

// Story tells a job's changes of phase and size, each once, a line each.
type Story struct {
	Style output.Style
	Zone  *time.Location

	phase      cluster.Phase
	reason     string
	generation uint64 // of the newest rescale told
	restarts   int
	problems   map[string]bool // told, by the line without its time
	lost       string          // why its promised deadline cannot be kept, as told
	answered   bool            // the answer to its deadline was seen
	by         time.Time       // the moment in its grace that is promised, as told
}

// Tell returns the lines that a new status adds, which was seen at a time.
func (s *Story) Tell(j api.JobStatus, seen time.Time) []string {
	var lines []string
	for _, r := range j.Rescales {
		if r.Generation > s.generation {
			s.generation = r.Generation
			lines = append(lines, s.line(r.At, s.rescale(r)))
		}
	}
	if j.Failure != nil && j.Restarts > s.restarts {
		lines = append(lines, s.line(j.Failure.At, s.Style.Paint(output.Red, failureText(*j.Failure))))
	}
	s.restarts = j.Restarts
	reason := j.WhyPending
	if j.Phase == cluster.Halting {
		reason = j.Reason // it may be cut short
	}
	changed := j.Phase != s.phase || (j.Phase == cluster.Queued || j.Phase == cluster.Halting) && reason != s.reason
	at := j.Since
	if j.Phase == s.phase {
		at = seen // only why has changed
	}
	s.phase, s.reason = j.Phase, reason
	if text := s.phaseText(j); changed && text != "" {
		lines = append(lines, s.line(at, text))
	}
	return append(append(lines, s.deadlineLines(j, seen)...), s.problemLines(j)...)
}

// deadlineLines tells when a promised deadline cannot be kept any more, or can be again.
func (s *Story) deadlineLines(j api.JobStatus, seen time.Time) (lines []string) {
	if j.Answer == nil || j.Ended {
		return nil
	}
	if by := j.Answer.By; by != nil && !by.Equal(s.by) {
		if s.answered { // else its answer has said so
			lines = append(lines, s.line(seen, s.Style.Paint(output.Yellow, fmt.Sprintf("its deadline cannot be kept any more: promised by %s now, within its grace", s.clock(*by)))))
		}
		s.by = *by
	}
	s.answered = true
	if j.Answer.Lost == s.lost {
		return lines
	}
	if s.lost = j.Answer.Lost; s.lost == "" {
		return append(lines, s.line(seen, s.Style.Paint(output.Green, "its promised deadline can be kept again")))
	}
	return append(lines, s.line(seen, s.Style.Paint(output.Red, "its promised deadline cannot be kept any more: "+s.lost)))
}

// problemLines are the lines for what nodes tell that may cost work, such as a checkpoint that does not count.
func (s *Story) problemLines(j api.JobStatus) (lines []string) {
	for _, p := range j.Problems {
		text := fmt.Sprintf("problem on %s: %s", p.Node, p.Text)
		if s.problems[text] {
			continue
		}
		if s.problems == nil {
			s.problems = map[string]bool{}
		}
		s.problems[text] = true
		lines = append(lines, s.line(p.At, s.Style.Paint(output.Red, text)))
	}
	return lines
}

// phaseText tells of a phase; those that a rescale or the ending tells of, and
// those that last for a moment, need no line of their own.
func (s *Story) phaseText(j api.JobStatus) string {
	switch j.Phase {
	case cluster.Queued:
		if j.Because.Has(reason.Accepted) {
			return "" // its submitter has been told
		}
		if j.QueuePosition > 0 {
			return fmt.Sprintf("queued, place %d: %s", j.QueuePosition, j.WhyPending)
		}
		return "queued: " + j.WhyPending
	case cluster.Halting:
		if j.Saving {
			return "saves and stops: " + j.Reason
		}
		return "stops: " + j.Reason
	case cluster.Backoff:
		if j.NextStart != nil {
			return fmt.Sprintf("starts again at %s: %s", s.clock(*j.NextStart), j.Reason) // which says whether that is charged
		}
		return "restarts: " + j.Reason
	case cluster.Held:
		return string(j.Phase) + ": " + j.Reason
	case cluster.Starting, cluster.Running, cluster.Succeeded, cluster.Failed, cluster.Stopped, cluster.Refused:
	}
	return ""
}

func (s *Story) rescale(r api.Rescale) string {
	if r.From == 0 && r.Generation == 1 {
		return fmt.Sprintf("started with %s (%s overhead)", units.Count(r.To, "worker"), units.Seconds(r.OwnS))
	}
	text := fmt.Sprintf("%d → %s: %s (%s overhead, %s save", r.From, units.Count(r.To, "worker"), r.Why, units.Seconds(r.OwnS), units.Seconds(r.SaveS))
	if r.WaitS > 0 {
		text += fmt.Sprintf(", %s until a lost node's workers had certainly ended", units.Seconds(r.WaitS))
	}
	text += ")"
	if r.ResumeStep >= 0 {
		text += fmt.Sprintf(", from step %d", r.ResumeStep)
	} else {
		text += ", from the beginning"
	}
	if r.LostSteps > 0 {
		text += s.Style.Paint(output.Yellow, fmt.Sprintf(", %s lost", units.Count(int(r.LostSteps), "step")))
	}
	return text
}

// Ending tells how the job ended.
func (s *Story) Ending(j api.JobStatus) []string {
	took := ""
	if d := j.Since.Sub(j.SubmittedAt); d > 0 {
		took = " after " + units.Span(d)
	}
	switch j.Phase {
	case cluster.Succeeded:
		return []string{s.line(j.Since, s.Style.Paint(output.Green, "succeeded")+took)}
	case cluster.Failed:
		return []string{s.line(j.Since, s.Style.Paint(output.Red, "failed")+took+": "+j.Reason)}
	case cluster.Refused:
		return []string{s.line(j.Since, s.Style.Paint(output.Red, "refused")+": "+j.Reason)}
	case cluster.Stopped:
		if j.TimedOut {
			return []string{s.line(j.Since, s.Style.Paint(output.Yellow, "stopped by its time limit"+took+": "+j.Reason)), s.Note(
				s.Style.Paint(output.Yellow, fmt.Sprintf("warning: it had not finished; bellows resume %s goes on from %s, with the whole limit again or, with --time-limit, another", j.ID, lastSaved(j))))}
		}
		return []string{s.line(j.Since, "stopped"+took+": "+j.Reason)}
	case cluster.Queued, cluster.Starting, cluster.Running, cluster.Halting, cluster.Backoff, cluster.Held:
	}
	return nil
}

func failureText(f api.Failure) string {
	var where []string
	if f.Rank >= 0 {
		where = append(where, fmt.Sprintf("rank %d", f.Rank))
	}
	if f.Node != "" {
		where = append(where, "node "+f.Node)
	}
	if len(where) == 0 {
		return "failed: " + f.Reason
	}
	return strings.Join(where, ", ") + " failed: " + f.Reason
}

func (s *Story) line(at time.Time, text string) string {
	return s.Style.Paint(output.Bold, "▸ "+s.clock(at)) + " " + keepColours(text)
}

// Note returns a line that is no event of the job's own.
func (s *Story) Note(text string) string { return s.Style.Paint(output.Bold, "▸") + " " + text }

func (s *Story) clock(t time.Time) string { return t.In(s.Zone).Format("15:04:05") }

// keepColours makes a line safe that has colours of this package and texts of records.
func keepColours(text string) string { return output.Tame(strings.ReplaceAll(text, "\n", " ")) }

// lastSaved says where a job that has ended would go on.
func lastSaved(j api.JobStatus) string {
	for _, c := range j.Checkpoints {
		if c.Committed {
			return fmt.Sprintf("step %d", c.Step)
		}
	}
	return "the beginning, for it never saved"
}
