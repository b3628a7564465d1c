package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/jobspec"
	"github.com/bellows-ml/bellows/internal/fault"
)

func submitCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "submit -f FILE",
		Short: "Submit a job that a YAML file describes, and print its identifier",
		Long: `Submits a job. The file's keys are the flags of 'bellows run', and command; relative
paths are taken from the file's own folder, which is also the workdir unless it
says another. Unknown and repeated keys are refused, and every fault is reported
with its line. '-f -' reads from stdin.

  command: [python, train.py, --lr, "0.1"]
  min: 1
  max: 8
  batch-size: 256:1024
  steps: 10000
  env:
    OMP_NUM_THREADS: "1"

` + deadlineLong + `

` + dryRunLong + `
A job that is refused for its deadline ends the command with exit status 4.`,
		Args: command.Exactly(),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the job file")
	accept, dry := acceptFlag(cmd.Flags()), dryRunFlag(cmd.Flags())
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return fault.Usage("submit: the job file is missing, as in: bellows submit -f job.yaml")
		}
		if err := checkDry(cmd, *dry); err != nil {
			return err
		}
		spec, err := jobspec.FromFile(file, useOf(*dry))
		if err != nil {
			return err
		}
		client, socket := agentOf(cmd)
		if *dry {
			return ask.Explain(dryRun(cmd.Context(), client, spec, out), socket)
		}
		reply, err := submitted(cmd.Context(), client, spec, *accept)
		if err != nil {
			return ask.Explain(err, socket)
		}
		return out.Write(os.Stdout, reply, func() error {
			_, err := fmt.Fprintln(os.Stdout, reply.ID)
			return err
		})
	}
	return cmd
}
