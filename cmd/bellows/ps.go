package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/output"
	"github.com/bellows-ml/bellows/internal/units"
)

func psCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the jobs that have not ended, and why each is where it is",
		Args:  exactly(),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	out := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, socket := agentOf(cmd)
		jobs, err := client.Jobs(cmd.Context(), all)
		if err != nil {
			return explain(err, socket)
		}
		return out.Write(os.Stdout, jobs, func() error {
			if len(jobs) == 0 {
				fmt.Fprintln(os.Stderr, "no jobs; 'bellows run -- COMMAND' submits one, 'bellows ps --all' lists ended ones")
				return nil
			}
			return writeJobs(os.Stdout, jobs, page{style: output.StyleOf(os.Stdout), now: time.Now(), zone: time.Local})
		})
	}
	return cmd
}

// page is what the rendering of a result depends on besides the result.
type page struct {
	style output.Style
	now   time.Time
	zone  *time.Location
}

// clock says a moment: its time of day, with its date unless that is today's.
func (p page) clock(t time.Time) string {
	t = t.In(p.zone)
	if t.Format(time.DateOnly) == p.now.In(p.zone).Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// ago says how long something has been.
func (p page) ago(t time.Time) string { return units.Span(p.now.Sub(t)) }

func writeJobs(w io.Writer, jobs []api.JobStatus, p page) error {
	t := output.Table{
		Head: []string{"JOB", "OWNER", "PHASE", "WORKERS", "GEN", "PROGRESS", "ETA", "LEFT", "SINCE", "WHY"},
		Paint: func(row, column int) string {
			if column != 2 {
				return ""
			}
			return phaseColour(jobs[row].Phase)
		},
	}
	for _, j := range jobs {
		t.Add(j.ID, j.Owner, string(j.Phase), workersOf(j), fmt.Sprint(j.Generation), progressOf(j), etaOf(j), p.left(j), p.ago(j.Since), whyOf(j))
	}
	return t.Write(w, p.style)
}

func phaseColour(phase cluster.Phase) string {
	switch phase {
	case cluster.Running, cluster.Succeeded:
		return output.Green
	case cluster.Starting, cluster.Halting, cluster.Queued, cluster.Suspended:
		return output.Yellow
	case cluster.Backoff, cluster.Held, cluster.Failed:
		return output.Red
	case cluster.Stopped:
	}
	return ""
}

// workersOf says how many workers a job has and how many it may have.
func workersOf(j api.JobStatus) string {
	return fmt.Sprintf("%d (%d-%d)", j.Workers, j.MinWorkers, j.MaxWorkers)
}

func progressOf(j api.JobStatus) string {
	switch p := j.Progress; {
	case p.Fraction != nil:
		return fmt.Sprintf("%d%%", int(*p.Fraction*100))
	case p.Step > 0:
		return fmt.Sprintf("step %d", p.Step)
	}
	return "-"
}

func etaOf(j api.JobStatus) string {
	if j.Ended || j.Progress.ETASeconds == nil {
		return "-"
	}
	return units.Span(time.Duration(*j.Progress.ETASeconds * float64(time.Second)))
}

func whyOf(j api.JobStatus) string {
	switch {
	case j.Ended:
		return j.Reason
	case j.Stopping:
		return "its owner stops it"
	case j.QueuePosition > 0:
		return fmt.Sprintf("place %d: %s", j.QueuePosition, j.WhyPending)
	case j.WhyPending != "":
		return j.WhyPending
	}
	return j.Reason
}

// left says how much of its time limit a job has left.
func (p page) left(j api.JobStatus) string {
	switch {
	case j.TimeLimitS == 0:
		return "-"
	case j.LimitAt != nil:
		return units.Span(j.LimitAt.Sub(p.now))
	}
	return units.Span(time.Duration((j.TimeLimitS - j.RanS) * float64(time.Second)))
}

// limitText says what a job's time limit is and how much of it is left.
func (p page) limitText(j api.JobStatus) string {
	if j.TimeLimitS == 0 {
		return ""
	}
	text := fmt.Sprintf("%s of running, %s left", units.Span(time.Duration(j.TimeLimitS*float64(time.Second))), p.left(j))
	if j.LimitAt != nil {
		text += ", until " + p.clock(*j.LimitAt) + " if nothing interrupts it"
	}
	return text
}
