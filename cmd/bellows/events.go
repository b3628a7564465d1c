package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/internal/fault"
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
leads. With JOB, by its identifier or name, only what happened to that job. Every user
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
	out := command.OutputFlag(cmd)
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
		w := render.Events{Out: os.Stdout, Msg: os.Stderr, View: view(), JSON: *out == output.AsJSON}
		return ask.Explain(ask.Events(cmd.Context(), client, q, w.Write), socket)
	}
	return cmd
}
