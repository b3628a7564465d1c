package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/render"
)

func psCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the jobs that have not ended, and why each is where it is",
		Long: `Lists the jobs. STEPS/S is the speed of the present generation, GOODPUT the share of the
job's time with devices in which it did steps that count, ETA how long until the
predicted end, and 90% the range that this lies in nine times in ten; STARTS in how long a
job that waits is predicted to start, with the range of that in brackets; LEFT is what is left of
its time limit. A terminal that is narrow, or in which a column is empty, is shown fewer
columns; bellows show and -o json have everything.`,
		Args: command.Exactly(),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, socket := agentOf(cmd)
		jobs, err := client.Jobs(cmd.Context(), all)
		if err != nil {
			return ask.Explain(err, socket)
		}
		return out.Write(os.Stdout, jobs, func() error {
			if len(jobs) == 0 {
				fmt.Fprintln(os.Stderr, "no jobs; 'bellows run -- COMMAND' submits one, 'bellows ps --all' lists ended ones")
				return nil
			}
			return render.Jobs(os.Stdout, jobs, view())
		})
	}
	return cmd
}
