package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/verify"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

const verifyLimit = 10 * time.Minute

func verifyCommand() *cobra.Command {
	var o verify.Options
	var plot, tolerance string
	cmd := &cobra.Command{
		Use:   "verify [flags] -- COMMAND [ARG…]",
		Short: "Find out whether a script learns the same when it is rescaled",
		Long: `Trains the command twice for a few steps, as processes of this machine: once with the
first of --sizes, never rescaled, and once through all of --sizes, each world resuming from
the checkpoint of the one before. Then it compares, step by step: which samples were taken, or
what the model was given where they have no indices, the global batch, the learning rate, the
loss and the gradient's norm; at the end the parameters and the optimizer's state; whether
random numbers repeat over ranks or steps; and with what state each world goes on. It says what differs first, by how much, the likely cause and the
remedy; also where what is wanted was reached, but the trainings are the same on average only.

Needs no cluster and no agent. The script has to ask bellows.should_stop before each step and
save at the end; one of torch that does not import bellows gets SIGTERM after a world's last
step, and saves into $BELLOWS_CHECKPOINT_DIR. Optimizers, schedulers, loaders and dropout of
torch are observed by hooks that exist under verify only. Without torch, what bellows.report
says is compared, and the arrays that numpy.savez writes into the checkpoint. Each
worker is a process of its own, as a cold start has it. It runs with one thread unless
OMP_NUM_THREADS is set, and sees no GPUs without --gpus.

How equal they have to be is --tolerance. All classes demand the same samples, global batch
and learning rate in each step, and masks that do not repeat.
  bitwise      losses, norms, parameters and optimizer state have the same bits
  1e-6         they differ by a millionth at most, tensors relative to their largest value
  statistical  mean loss and mean norm differ by no more than 3 standard errors, and by no
               more than 5 % and 25 %; each difference has a cause that makes no other
               training, such as rounding or dropout, of data that was seen to be the same

Exit status: 0 if the class was reached, 1 if it was not or the script failed.`,
		Example: "  bellows verify -- python train.py\n  bellows verify --sizes 4,2,4 --tolerance 1e-6 -- python train.py --lr 0.1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.Usage("verify: the command is missing, as in: bellows verify -- python train.py")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.Sizes, "sizes", []int{8, 4, 8, 2, 1, 4}, "numbers of workers of the rescaled training, in turn")
	f.IntVar(&o.Nodes, "nodes", 1, "tell the workers of each world that they are on this many nodes, as many on each")
	f.IntVar(&o.StepsEach, "steps-each", 4, "steps that each of them trains")
	f.IntVar(&o.BatchSize, "batch-size", cluster.DefaultBatchSize, "samples a step over all workers")
	f.BoolVar(&o.Uneven, "uneven-batch", false, "the workers' shares of the batch may differ by one sample")
	f.IntVar(&o.MicroBatch, "micro-batch", 0, "samples that a device takes at once (default: its share in the largest world)")
	f.IntVar(&o.LogicalWorkers, "logical-workers", 0, "parts that each step is cut into whatever the number of workers; a power of two (default: one for each worker)")
	f.StringVar(&tolerance, "tolerance", string(verify.Statistical), "how equal the trainings have to be: bitwise, 1e-6 or statistical")
	f.BoolVar(&o.GPUs, "gpus", false, "let the script see this machine's GPUs; there have to be as many as the largest size")
	f.DurationVar(&o.Limit, "limit", verifyLimit, "how long one world may take")
	f.StringVar(&o.Keep, "keep", "", "keep logs, checkpoints and what was seen in this directory, which must be new or empty")
	f.StringVar(&plot, "plot", "", "draw the two losses into this SVG file")
	f.SetInterspersed(false) // what follows the command is the command's
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Command, o.Tolerance, o.Told = args, verify.Class(tolerance), os.Stderr
		return verified(cmd, o, out, plot)
	}
	return cmd
}

// verified verifies a script and shows what came out.
func verified(cmd *cobra.Command, o verify.Options, out *output.Format, plot string) error {
	if err := o.Check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, err := verify.Run(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return fault.Exit(128 + int(syscall.SIGINT))
		}
		return err
	}
	if err = out.Write(os.Stdout, result, func() error { return result.Text(os.Stdout) }); err != nil {
		return err
	}
	if plot != "" {
		err = result.Plot(plot)
	}
	if !result.Good() {
		err = errors.Join(err, fault.Exit(1))
	}
	return err
}
