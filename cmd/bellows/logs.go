package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
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
		Args:    command.Exactly("JOB"),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until the job has ended")
	cmd.Flags().IntVar(&rank, "rank", 0, "only this rank's lines (default: all)")
	cmd.Flags().Uint64Var(&generation, "generation", 0, "only this generation's lines (default: all)")
	cmd.Flags().IntVar(&tail, "tail", 0, "only the last so many `LINES` of each rank, in the newest generation or in that of --generation; with -f what comes follows (default: all)")
	cmd.Flags().StringVar(&since, "since", "", "only what was written so long ago or later, such as 10m, or from a time on such as 2026-01-31T18:00:00Z")
	out := command.OutputFlag(cmd)
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
			t, err := units.Since(since, time.Now())
			if err != nil {
				return fault.Usage("--since %w", err)
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
		w := &render.Logs{Out: os.Stdout, Msg: os.Stderr, Style: output.StyleOf(os.Stdout), JSON: *out == output.AsJSON, Bare: q.Rank != nil}
		if err := ask.Logs(cmd.Context(), client, args[0], q, w.Line); err != nil {
			return ask.Explain(err, socket)
		}
		if w.Missing {
			return fault.Exit(1)
		}
		return nil
	}
	return cmd
}
