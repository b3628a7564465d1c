package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/render"
)

func showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show JOB",
		Short: "Show all about one job: where it is and why, its rescales, failures and checkpoints",
		Long: `Shows one job, by its identifier or by its name: the live job of that name if there
is one, else the one submitted last. The seconds of a rescale are: signal, until the
last worker was told; save, until the last one was gone; wait, until the workers of a
lost node had certainly ended; commit, until the next world was planned; start, until
its first worker ran. Overhead is Bellows's own share: signal, commit and start. Gain is by
which factor the rescale has changed the speed, and in brackets was predicted to.

Speeds are steps a second at each size that the job may have: measured there by its own
generations, or before its first by earlier jobs of its kind, or predicted from other
sizes. A measured speed has the range that holds nine tenths of the measurements, and a
size at which the job was started what the last start cost, until its first step. The
predicted end holds if the job keeps its workers; it takes --steps or --eta. Goodput is
the share of its time with devices in which the job did steps that count.

The predicted start of a job that waits is that of the coordinator's policy, run ahead in
time: jobs end as predicted, and others come as they came lately.`,
		Args: command.Exactly("JOB"),
	}
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		job, err := client.Job(cmd.Context(), args[0])
		if err != nil {
			return ask.Explain(err, socket)
		}
		return out.Write(os.Stdout, job, func() error {
			return render.Job(os.Stdout, job, view())
		})
	}
	return cmd
}
