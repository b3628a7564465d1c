package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/jobspec"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/profile"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

const (
	// leastSeconds is how long a size trains at least: reports come every ten seconds, and
	// those of the warm-up do not count.
	leastSeconds   = 25
	profileSeconds = 60
	profileStartIn = 5 * time.Minute
	// lowest is a profile's priority: it is not to keep others waiting.
	lowest = -cluster.MaxPriority
)

func profileCommand() *cobra.Command {
	var job *jobspec.Flags
	var sizes []int
	var seconds int
	var startIn time.Duration
	cmd := &cobra.Command{
		Use:   "profile [flags] -- COMMAND [ARG…]",
		Short: "Measure how fast a job is with 1, 2, 4, … workers, on idle devices",
		Long: `Runs the command as a job that trains for --seconds with each number of workers, the
smallest first, and prints its steps a second and what its starts have cost. What was
measured stays recorded for the job's kind: the next 'bellows run' of the same command, or of the
same --kind, begins with it. Without a profile the same is learnt while a job trains.

The script has to report its steps (import bellows; bellows.report(step)), and to have
enough of them. It takes devices that are idle: a size for which there are too few is left
out. The job goes with the lowest priority, is rescaled like any other, and saves into a folder
.bellows-profile-… below the checkpoint directory, which is removed here at the end.

Ctrl-C ends the job and prints what was measured until then.`,
		Example: "  bellows profile --sizes 1,2,4 -- python train.py --lr 0.1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.Usage("profile: the command is missing, as in: bellows profile -- python train.py")
			}
			return nil
		},
	}
	job = jobspec.NewFlags(cmd.Flags())
	cmd.Flags().IntSliceVar(&sizes, "sizes", nil, "the numbers of workers to measure (default: all that it may have, up to what is idle)")
	cmd.Flags().IntVar(&seconds, "seconds", profileSeconds, "how long each size trains, from its first step on")
	cmd.Flags().DurationVar(&startIn, "start-timeout", profileStartIn, "by when a size has to have finished its first step")
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	out := command.OutputFlag(cmd)
	cmd.InitDefaultHelpFlag()
	flags.Arrange(cmd.Flags(), append([]flags.Group{{Title: "Measuring", Names: []string{"sizes", "seconds", "start-timeout"}}}, jobspec.Groups()...))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case seconds < leastSeconds:
			return fault.Usage("--seconds %d: use %d or more: what is reported of the first seconds does not count", seconds, leastSeconds)
		case startIn <= 0:
			return fault.Usage("--start-timeout %s: use a time above zero such as 5m", startIn)
		}
		options := profile.Options{Sizes: sizes, Each: time.Duration(seconds) * time.Second, StartIn: startIn, Told: os.Stderr}
		return measure(cmd, options, out, func() (cluster.Spec, error) { return profiled(cmd, job, args) })
	}
	return cmd
}

// measure runs a profile of the job that specOf makes and prints it.
func measure(cmd *cobra.Command, o profile.Options, out *output.Format, specOf func() (cluster.Spec, error)) error {
	client, socket := agentOf(cmd)
	nodes, err := client.Nodes(cmd.Context())
	if err != nil {
		return ask.Explain(err, socket)
	}
	if o.Spec, err = specOf(); err != nil {
		return err
	}
	defer os.RemoveAll(o.Spec.CheckpointDir) //nolint:errcheck // what cannot be removed is the user's to see: its name says what it is
	idle := profile.Idle(nodes, o.Spec.Where)
	if !cmd.Flags().Changed("max") && len(o.Spec.Sizes) == 0 {
		o.Spec.MaxWorkers = max(idle, o.Spec.MinWorkers)
	}
	if o.Sizes, err = profile.Sizes(o.Spec, o.Sizes, idle); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, err := profile.Run(ctx, client, o)
	if len(result.Speeds) > 0 {
		if failed := out.Write(os.Stdout, result, func() error { return render.Speeds(os.Stdout, result.Speeds, result.Starts, view()) }); failed != nil {
			return failed
		}
		fmt.Fprintf(os.Stderr, "recorded as kind %s\n", result.Kind)
	}
	if errors.Is(err, context.Canceled) {
		return fault.Exit(128 + int(syscall.SIGINT))
	}
	return ask.Explain(err, socket)
}

// profiled is the spec of a job that is measured. It saves into a folder of its own.
func profiled(cmd *cobra.Command, job *jobspec.Flags, command []string) (cluster.Spec, error) {
	base := "."
	if given := cmd.Flags().Lookup("checkpoint-dir").Value.String(); given != "" {
		base = given
	} else if workdir := cmd.Flags().Lookup("workdir").Value.String(); workdir != "" {
		base = workdir
	}
	own := filepath.Join(base, ".bellows-profile-"+strings.ToLower(rand.Text()[:8]))
	if err := cmd.Flags().Set("checkpoint-dir", own); err != nil {
		return cluster.Spec{}, err
	}
	spec, err := job.Spec(command, jobspec.Submission)
	if err != nil {
		return spec, err
	}
	if !cmd.Flags().Changed("name") {
		name := "profile-" + spec.Name
		spec.Name = strings.TrimRight(name[:min(len(name), cluster.MaxNameBytes)], "._-")
	}
	if !cmd.Flags().Changed("priority") {
		spec.Priority = lowest
	}
	return spec, nil
}
