package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/dev"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/fidelity"
)

func benchFidelityCommand() *cobra.Command {
	var o fidelity.Options
	cmd := &cobra.Command{
		Use:   "fidelity",
		Short: "Compare the simulator with a cluster of real processes",
		Long: `Draws mixes of 6 to 12 jobs whose speeds differ, trains each on a cluster of its own
as 'bellows dev' starts it, submitted with 'bellows run --steps', and simulates it
under the same policy. Prints both mean completion times, and how often jobs were
rescaled. What the simulator takes a start to cost was measured in the other mixes.

A step of these jobs sleeps for as long as the job's curve says, so that the machine's
speed does not count; it has to be otherwise idle all the same. Each mix takes about
two minutes a policy. Ctrl-C ends the cluster and takes its folder away.`,
		Args: command.Exactly(),
	}
	f := cmd.Flags()
	f.StringVar(&o.Program, "bellows", "", "the bellows to run clusters with (default: beside this program, else in $PATH)")
	f.IntVar(&o.Mixes, "mixes", 8, "number of mixes")
	f.Uint64Var(&o.Seed, "seed", 1, "what mixes are drawn from")
	f.Float64Var(&o.Scale, "scale", 1, "multiplies the jobs' work and the times between their submissions")
	f.StringSliceVar(&o.Policies, "policy", []string{"greedy", "hu", settings.DefaultPolicy}, "policies, separated by commas")
	f.IntVar(&o.Nodes, "nodes", 2, "nodes of the cluster")
	f.IntVar(&o.DevicesPerNode, "devices-per-node", 4, "devices of each")
	f.DurationVar(&o.Interval, "interval", dev.DefaultInterval, "time between decisions that may move running jobs")
	f.DurationVar(&o.Limit, "limit", 10*time.Minute, "give up on a mix that takes longer on the cluster")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err = o.Check(); err != nil {
			return err
		}
		if o.Program, err = bellows(o.Program); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second Ctrl-C ends this at once; the cluster then ends by itself
		o.Progress = func(mix, mixes int, policy string) { fmt.Fprintf(os.Stderr, "mix %d of %d: %s\n", mix, mixes, policy) }
		r, err := fidelity.Run(ctx, o)
		switch {
		case errors.Is(err, context.Canceled):
			return errors.New("interrupted: the cluster was ended, and nothing was measured")
		case err != nil:
			return err
		}
		return out.Write(os.Stdout, r, func() error { return writeFidelity(os.Stdout, r, output.StyleOf(os.Stdout)) })
	}
	return cmd
}

// bellows finds the program that clusters are run with.
func bellows(named string) (string, error) {
	const name = "bellows"
	if named != "" {
		if _, err := exec.LookPath(named); err != nil {
			return "", fault.Usage("--%s %s: %w", name, named, fault.Reason(err))
		}
		return named, nil
	}
	if own, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), name)); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fault.Usage("no program %s beside this one, nor in $PATH: make build makes both; or name it with --%s", name, name)
	}
	return path, nil
}

func writeFidelity(w io.Writer, r fidelity.Report, s output.Style) error {
	percent := func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }
	t := output.Table{Head: []string{"MIX", "JOBS", "POLICY", "REAL", "SIMULATED", "ERROR", "RESCALES", "SIMULATED", "START COST", "ASSUMED"}}
	for _, row := range r.Rows {
		t.Add(strconv.Itoa(row.Mix), strconv.Itoa(row.Jobs), row.Policy, fmt.Sprintf("%.1f s", row.RealS), fmt.Sprintf("%.1f s", row.SimulatedS), percent(row.Error),
			strconv.Itoa(row.RealRescales), strconv.Itoa(row.SimulatedRescales), fmt.Sprintf("%.2f s", row.StartCostS), fmt.Sprintf("%.2f s", row.AssumedCostS))
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "mean error %s, worst %s\n", percent(r.MeanError), percent(r.WorstError))
	return err
}
