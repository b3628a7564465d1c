package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/follow"
	"github.com/bellows-ml/bellows/cli/jobspec"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

func runCommand() *cobra.Command {
	var job *jobspec.Flags
	var detach bool
	var accept, dry *bool
	var out *output.Format
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Submit a job, follow it, and end with its exit status",
		Long: `Submits a job to the agent of this machine and follows it: what its workers
write goes to stdout with the rank before each line, and every change of phase or
size is a line on stderr. The job's working directory, PATH, VIRTUAL_ENV, CONDA_*,
LD_LIBRARY_PATH, PYTHONPATH and HOME are those of the submitter.

The number of workers is a power of two from --min to --max that divides the
batch size; Bellows changes it while the job trains. A script that can only run
with other numbers, say because its model is cut into three parts, names them
with --world-sizes 3,6,12; each has to divide a number in the range of --batch-size.

Ctrl-C asks whether to stop the job or to detach from it; a second one detaches, as
does one while the job stops: it saves on, and 'bellows stop --now' would cut that short.
Without a terminal to ask on, the first Ctrl-C detaches. A terminal that goes
away detaches too. A job that was detached from goes on: see bellows ps, logs, stop.

With --time-limit the job saves and ends once it has been running for so long, from
when all of its workers were started to when they are halted, over all generations.
What it waits, starts, saves and backs off does not count; a resume gives it the
whole limit again, and bellows scale --time-limit changes it.

` + deadlineLong + `

` + dryRunLong + `
Exit status: the job's own (that of its first failing worker; 1 if there is none),
4 if it was refused for its deadline, 124 if its time limit has ended it, 0 after detaching as asked, 130 and 143 after
detaching by a signal. Of a job that was stopped it is never 0: that of its workers,
or 1 if all of them saved and exited 0, for the job is not done.`,
		Example: "  bellows run --min 2 --max 8 --batch-size 256 -- python train.py --lr 0.1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.Usage("run: the command is missing, as in: bellows run -- python train.py")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := runSpec(cmd, job, args, *dry)
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
			if detach {
				fmt.Fprintln(os.Stdout, reply.ID)
				return nil
			}
			return ask.Explain(follow.Job(cmd.Context(), client, reply.ID), socket)
		},
	}
	job = jobspec.NewFlags(cmd.Flags())
	accept, dry = acceptFlag(cmd.Flags()), dryRunFlag(cmd.Flags())
	out = command.OutputFlag(cmd)
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "print the job's identifier and do not follow it")
	cmd.InitDefaultHelpFlag()
	flags.Arrange(cmd.Flags(), jobspec.Groups())
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	return cmd
}

// runSpec is the job that the flags describe.
func runSpec(cmd *cobra.Command, job *jobspec.Flags, args []string, dry bool) (cluster.Spec, error) {
	if !dry && cmd.Flags().Changed("output") {
		return cluster.Spec{}, fault.Usage("run: --output goes with --dry-run; 'bellows submit' and 'bellows show' have it, too")
	}
	if err := checkDry(cmd, dry); err != nil {
		return cluster.Spec{}, err
	}
	return job.Spec(args, useOf(dry))
}

// announce says what became of a submission.
func announce(reply api.SubmitReply) {
	warnOf(reply)
	if reply.Leader == "" {
		fmt.Fprintf(os.Stderr, "%s: accepted, queued: no coordinator leads\n", reply.ID)
		return
	}
	fmt.Fprintf(os.Stderr, "%s: accepted\n", reply.ID)
}

// warnOf passes on what a submitter should look at.
func warnOf(reply api.SubmitReply) { warn(reply.Warnings) }

func warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(os.Stderr, "warning: "+output.OneLine(w))
	}
}
