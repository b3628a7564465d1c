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
)

func stopCommand() *cobra.Command {
	var wait, now bool
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "Stop a job for good; it saves first",
		Long: `Asks a job to save and stop. It ends as 'stopped', and its checkpoints stay; 'bellows
resume' lets it go on. It has its --halt-timeout to save in, and is killed then. To ask
again changes nothing; with --now it is killed at once, also in the middle of a save, and
what it has not saved is lost. Only its owner or root may.`,
		Args: command.Exactly("JOB"),
	}
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "return when it has ended")
	cmd.Flags().BoolVar(&now, "now", false, "kill it without waiting for a save: what it has not saved is lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		reply, err := ask.Stop(cmd.Context(), client, args[0], now)
		if err != nil {
			return ask.Explain(err, socket)
		}
		fmt.Fprintln(os.Stderr, render.Stop(reply, now, time.Local))
		if reply.Ended || !wait {
			return nil
		}
		return ask.Explain(client.Watch(cmd.Context(), reply.ID, func(j api.JobStatus) error {
			if j.Ended {
				fmt.Fprintf(os.Stderr, "%s: %s: %s\n", j.ID, j.Phase, output.OneLine(j.Reason))
			}
			return nil
		}), socket)
	}
	return cmd
}
