package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/record"
)

func eventsCommand() *cobra.Command {
	var follow bool
	var since string
	cmd := &cobra.Command{
		Use:   "events [JOB]",
		Short: "Tell what happened in the cluster, and why",
		Long: fmt.Sprintf(`Tells what happened, oldest first: jobs submitted, queued, started, rescaled, halted,
failed, ended; nodes joined, lost, fenced, drained, removed; devices that have become unfit; who
leads. With JOB, by its identifier or name, only what happened to that job. Everybody
sees all of it, as with ps; what workers wrote is not part of it.

The newest %d events are kept, and the newest %d that each node tells of itself. -f goes
on with what comes, across restarts of the agent and of etcd. -o json writes a line of
JSON for each event.`, record.KeptEvents, record.KeptNodeEvents),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("events: %q is one argument too many: give one job, or none for all", args[1])
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	cmd.Flags().StringVar(&since, "since", "", "only what is not older than this: a time such as 2026-01-31T18:00:00Z, or how long ago such as 2h30m")
	out := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := api.EventQuery{Follow: follow}
		if len(args) > 0 {
			if q.Job = args[0]; q.Job == "" {
				return usage("events: the job is an empty text: leave it out for all")
			}
		}
		var err error
		if cmd.Flags().Changed("since") {
			if q.Since, err = ago(since, time.Now()); err != nil {
				return usage("--since %w", err)
			}
		}
		if *out == asYAML {
			return usage("--output yaml: events come as a table or as json")
		}
		client, socket := agentOf(cmd)
		w := eventWriter{out: os.Stdout, format: *out, page: page{style: styleOf(os.Stdout), now: time.Now(), zone: time.Local}}
		return explain(w.run(cmd.Context(), client, q), socket)
	}
	return cmd
}

// ago reads a time with its date, or how long ago it was.
func ago(text string, now time.Time) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d, durationErr := time.ParseDuration(text)
		if durationErr != nil || d < 0 {
			return time.Time{}, fmt.Errorf("%q: use a time such as %s, or how long ago such as 2h30m",
				text, now.Add(-2*time.Hour).UTC().Format(time.RFC3339))
		}
		t = now.Add(-d)
	}
	if t.After(now) {
		return time.Time{}, fmt.Errorf("%q: it is yet to come", text)
	}
	return t, nil
}

// eventWriter writes events, a line each.
type eventWriter struct {
	out    io.Writer
	format format
	page   page
	begun  bool // the head was written
}

// run writes what a query asks for; what is followed, across restarts of the agent.
func (w *eventWriter) run(ctx context.Context, client *api.Client, q api.EventQuery) error {
	return again(ctx, func(heard func()) error {
		return client.Events(ctx, q, w.write, func(revision int64) {
			heard()
			q.After = revision
		})
	})
}

func (w *eventWriter) write(e api.Event) error {
	if w.format == asJSON {
		return writeJSON(w.out, e, "")
	}
	if e.Notice != "" {
		fmt.Fprintln(os.Stderr, "bellows: "+oneLine(e.Notice))
		return nil
	}
	if !w.begun {
		w.begun = true
		if _, err := fmt.Fprintln(w.out, w.page.style.paint(faint, fmt.Sprintf(eventLine, "TIME", "EVENT", "JOB", "NODE", "WHAT"))); err != nil {
			return err
		}
	}
	kind := w.page.style.paint(eventColour(e.Kind), fmt.Sprintf("%-14s", oneLine(e.Kind)))
	line := fmt.Sprintf("%-19s %s %-20s %-8s %s", e.At.In(w.page.zone).Format(time.DateTime), kind,
		oneLine(cmp.Or(e.Job, "-")), oneLine(cmp.Or(e.Node, "-")), oneLine(whatHappened(e)))
	_, err := fmt.Fprintln(w.out, strings.TrimRight(line, " "))
	return err
}

// eventLine has columns of a width of their own: of what is still to come nobody knows how wide it is.
const eventLine = "%-19s %-14s %-20s %-8s %s"

func eventColour(kind string) string {
	switch record.EventKind(kind) {
	case record.JobWorkerFailed, record.JobFailed, record.JobKilled, record.JobFellBack, record.CheckpointLost,
		record.NodeLost, record.NodeGivenUp, record.DeviceProblem:
		return red
	case record.JobHalting, record.JobBackoff, record.JobHeld, record.JobStopped, record.JobQueued, record.NodeDrained, record.NodeLeft, record.NodeRemoved:
		return yellow
	case record.JobStarted, record.JobRescaled, record.JobSucceeded, record.NodeJoined, record.NodeUndrained, record.DeviceWell:
		return green
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
		parts = append(parts, fmt.Sprintf("%d → %s", e.From, count(e.To, "worker")))
	} else if e.To > 0 {
		parts = append(parts, count(e.To, "worker"))
	}
	if e.By != "" {
		parts = append(parts, "by "+e.By)
	}
	if e.Why != "" && e.Why != "start with "+count(e.To, "worker") { // which the figures say
		parts = append(parts, e.Why)
	}
	text := strings.Join(parts, ": ")
	if e.To > 0 {
		text += fmt.Sprintf(" (%s, %s of ours)", seconds(e.Seconds), seconds(e.OwnS))
	}
	return text
}
