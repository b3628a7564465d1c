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
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/output"
	"github.com/bellows-ml/bellows/internal/units"
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
				return fault.Usage("events: %q is one argument too many: give one job, or none for all", args[1])
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
				return fault.Usage("events: the job is an empty text: leave it out for all")
			}
		}
		var err error
		if cmd.Flags().Changed("since") {
			if q.Since, err = units.Ago(since, time.Now()); err != nil {
				return fault.Usage("--since %w", err)
			}
		}
		if *out == output.AsYAML {
			return fault.Usage("--output yaml: events come as a table or as json")
		}
		client, socket := agentOf(cmd)
		w := eventWriter{out: os.Stdout, format: *out, page: page{style: output.StyleOf(os.Stdout), now: time.Now(), zone: time.Local}}
		return explain(w.run(cmd.Context(), client, q), socket)
	}
	return cmd
}

// eventWriter writes events, a line each.
type eventWriter struct {
	out    io.Writer
	format output.Format
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
	if w.format == output.AsJSON {
		return output.WriteJSON(w.out, e, "")
	}
	if e.Notice != "" {
		fmt.Fprintln(os.Stderr, "bellows: "+output.OneLine(e.Notice))
		return nil
	}
	if !w.begun {
		w.begun = true
		if _, err := fmt.Fprintln(w.out, w.page.style.Paint(output.Faint, fmt.Sprintf(eventLine, "TIME", "EVENT", "JOB", "NODE", "WHAT"))); err != nil {
			return err
		}
	}
	kind := w.page.style.Paint(eventColour(e.Kind), fmt.Sprintf("%-14s", output.OneLine(e.Kind)))
	line := fmt.Sprintf("%-19s %s %-20s %-8s %s", e.At.In(w.page.zone).Format(time.DateTime), kind,
		output.OneLine(cmp.Or(e.Job, "-")), output.OneLine(cmp.Or(e.Node, "-")), output.OneLine(whatHappened(e)))
	_, err := fmt.Fprintln(w.out, strings.TrimRight(line, " "))
	return err
}

// eventLine has columns of a width of their own: of what is still to come nobody knows how wide it is.
const eventLine = "%-19s %-14s %-20s %-8s %s"

func eventColour(kind string) string {
	switch record.EventKind(kind) {
	case record.JobWorkerFailed, record.JobFailed, record.JobKilled, record.JobFellBack, record.CheckpointLost,
		record.NodeLost, record.NodeGivenUp, record.DeviceProblem:
		return output.Red
	case record.JobHalting, record.JobBackoff, record.JobHeld, record.JobStopped, record.JobQueued, record.NodeDrained, record.NodeLeft, record.NodeRemoved:
		return output.Yellow
	case record.JobStarted, record.JobRescaled, record.JobSucceeded, record.NodeJoined, record.NodeUndrained, record.DeviceWell:
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
	if e.Why != "" && e.Why != "start with "+units.Count(e.To, "worker") { // which the figures say
		parts = append(parts, e.Why)
	}
	text := strings.Join(parts, ": ")
	if e.To > 0 {
		text += fmt.Sprintf(" (%s, %s of ours)", units.Seconds(e.Seconds), units.Seconds(e.OwnS))
	}
	return text
}
