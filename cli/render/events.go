package render

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// Events writes events, a line each.
type Events struct {
	Out, Msg io.Writer // events, and notices
	View     View
	JSON     bool // a line of JSON for each event
	begun    bool // the head was written
}

// Write writes one event.
func (w *Events) Write(e api.Event) error {
	if w.JSON {
		return output.WriteJSON(w.Out, e, "")
	}
	if e.Notice != "" {
		_, err := fmt.Fprintln(w.Msg, "bellows: "+output.OneLine(e.Notice))
		return err
	}
	if !w.begun {
		w.begun = true
		if _, err := fmt.Fprintln(w.Out, w.View.Style.Paint(output.Faint, fmt.Sprintf(eventLine, "TIME", "EVENT", "JOB", "NODE", "WHAT"))); err != nil {
			return err
		}
	}
	kind := w.View.Style.Paint(eventColour(e.Kind), fmt.Sprintf("%-14s", output.OneLine(e.Kind)))
	line := fmt.Sprintf("%-19s %s %-20s %-8s %s", e.At.In(w.View.Zone).Format(time.DateTime), kind,
		output.OneLine(cmp.Or(e.Job, "-")), output.OneLine(cmp.Or(e.Node, "-")), output.OneLine(whatHappened(e)))
	_, err := fmt.Fprintln(w.Out, strings.TrimRight(line, " "))
	return err
}

// eventLine has columns of a fixed width: how wide later events are is not known when the first is written.
const eventLine = "%-19s %-14s %-20s %-8s %s"

func eventColour(kind string) string {
	switch record.EventKind(kind) {
	case record.JobWorkerFailed, record.JobFailed, record.JobKilled, record.JobFellBack, record.CheckpointLost,
		record.DeadlineBroken, record.NodeLost, record.NodeGivenUp, record.DeviceProblem:
		return output.Red
	case record.JobHalting, record.JobBackoff, record.JobHeld, record.JobStopped, record.JobRefused, record.JobQueued, record.DeadlineLate, record.NodeDrained, record.NodeLeft, record.NodeRemoved:
		return output.Yellow
	case record.JobStarted, record.JobRescaled, record.JobSucceeded, record.NodeJoined, record.NodeUndrained, record.DeviceWell, record.JobGained, record.DeadlineKept:
		return output.Green
	case record.JobSubmitted, record.JobStopping, record.JobScaled, record.JobResumed, record.LeaderChanged:
	}
	return ""
}

// whatHappened says in words what the columns do not.
func whatHappened(e api.Event) string {
	if e.Kind == string(record.LeaderChanged) {
		return e.By + " " + e.Why
	}
	var parts []string
	if e.From > 0 {
		parts = append(parts, fmt.Sprintf("%d → %s", e.From, units.Count(e.To, "worker")))
	} else if e.To > 0 {
		parts = append(parts, units.Count(e.To, "worker"))
	}
	if e.By != "" {
		parts = append(parts, "by "+e.By)
	}
	if plain := len(e.Because) == 1 && e.Because.Has(reason.StartWith); e.Why != "" && !plain { // which the figures say
		parts = append(parts, e.Why)
	}
	text := strings.Join(parts, ": ")
	switch {
	case e.Kind == string(record.JobGained):
		text += fmt.Sprintf(": %.2f times the speed, %s predicted", e.Measured, predictedText(e.Predicted))
	case e.To > 0:
		text += fmt.Sprintf(" (%s, %s overhead", units.Seconds(e.Seconds), units.Seconds(e.OwnS))
		if e.Predicted > 0 {
			text += fmt.Sprintf(", %.2f times the speed predicted", e.Predicted)
		}
		text += ")"
	}
	return text
}

func predictedText(factor float64) string {
	if factor == 0 {
		return "nothing was"
	}
	return fmt.Sprintf("%.2f", factor)
}
