package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/output"
)

func logsCommand() *cobra.Command {
	var follow bool
	var rank, tail int
	var generation uint64
	var since string
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print what a job's workers wrote, over all its nodes",
		Long: `Prints what the workers of a job wrote, generation by generation, with the rank
before each line; with --rank the lines alone. On a terminal a line says where a
generation begins, and escape sequences other than colours are taken out; a file or
a pipe gets every byte of the workers' and no other. -o json writes a line of JSON
for each line.

Where lines are missing, stderr says which and why. Exit status: 1 if a node could
not hand over what its ranks wrote. Of each rank the last part of what it wrote in a
generation is kept (bellows agent --log-size).`,
		Example: "  bellows logs train --tail 20\n  bellows logs train --since 10m\n  bellows logs -f train --rank 0",
		Args:    exactly("JOB"),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until the job has ended")
	cmd.Flags().IntVar(&rank, "rank", 0, "only this rank's lines (default: all)")
	cmd.Flags().Uint64Var(&generation, "generation", 0, "only this generation's lines (default: all)")
	cmd.Flags().IntVar(&tail, "tail", 0, "only the last so many `LINES` of each rank, in the newest generation or in that of --generation; with -f what comes follows (default: all)")
	cmd.Flags().StringVar(&since, "since", "", "only what was written so long ago or later, such as 10m, or from a time on such as 2026-01-31T18:00:00Z")
	out := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := api.LogQuery{Follow: follow, Generation: cluster.Generation(generation)}
		if cmd.Flags().Changed("rank") {
			if rank < 0 {
				return fault.Usage("--rank %d: use 0 or more", rank)
			}
			q.Rank = &rank
		}
		if cmd.Flags().Changed("tail") {
			if tail < 0 {
				return fault.Usage("--tail %d: use 0 or more", tail)
			}
			q.Tail = &tail
		}
		if since != "" {
			t, err := sinceTime(since, time.Now())
			if err != nil {
				return err
			}
			if q.Tail != nil {
				return fault.Usage("--tail and --since: use one of them")
			}
			q.Since = t
		}
		if cmd.Flags().Changed("generation") && generation == 0 {
			return fault.Usage("--generation 0: use 1 or more")
		}
		if *out == output.AsYAML {
			return fault.Usage("--output yaml: log lines come as a table or as json")
		}
		client, socket := agentOf(cmd)
		w := &logWriter{out: os.Stdout, msg: os.Stderr, style: output.StyleOf(os.Stdout), json: *out == output.AsJSON, bare: q.Rank != nil}
		if err := readLogs(cmd.Context(), client, args[0], q, w.line); err != nil {
			return explain(err, socket)
		}
		if w.missing {
			return fault.Exit(1)
		}
		return nil
	}
	return cmd
}

// sinceTime reads a time, or how long ago it was.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fault.Usage("--since %q: use a time above zero such as 10m, or a date such as 2026-01-31T18:00:00Z", text)
	}
	return t, nil
}

// readLogs reads a job's lines; while following, across restarts of the agent.
func readLogs(ctx context.Context, client *api.Client, ref string, q api.LogQuery, f func(api.LogLine) error) error {
	if !q.Follow {
		return client.Logs(ctx, ref, q, f)
	}
	status, err := client.Job(ctx, ref) // a name may come to mean another job
	if err != nil {
		return err
	}
	return followLogs(ctx, client, status.ID, q, f)
}

// logWriter writes lines; what is missing is a message.
type logWriter struct {
	out, msg   io.Writer
	style      output.Style // of out
	json       bool
	bare       bool   // without ranks
	generation uint64 // of the last line
	missing    bool   // lines that should have come have not
}

func (w *logWriter) line(line api.LogLine) error {
	w.missing = w.missing || line.Missing
	switch {
	case w.json:
		return output.WriteJSON(w.out, line, "")
	case line.Notice != "":
		_, err := fmt.Fprintln(w.msg, "bellows: "+output.OneLine(line.Notice))
		return err
	}
	if w.style.Terminal && line.Generation != w.generation && (w.generation != 0 || line.Generation > 1) {
		if _, err := fmt.Fprintln(w.out, w.style.Paint(output.Faint, fmt.Sprintf("── generation %d ──", line.Generation))); err != nil {
			return err
		}
	}
	w.generation = line.Generation
	text := line.Text
	switch {
	case !w.bare:
		text = prefixed(line, w.style)
	case w.style.Terminal:
		text = output.Tame(text)
	}
	_, err := fmt.Fprintln(w.out, text)
	return err
}
