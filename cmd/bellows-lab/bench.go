package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/bench"
	"github.com/bellows-ml/bellows/lab/milp"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure parts of Bellows by themselves",
		Args:  command.NoSuch,
		RunE:  command.Help,
	}
	cmd.AddCommand(benchAllocateCommand(), benchFidelityCommand())
	return cmd
}

func benchAllocateCommand() *cobra.Command {
	var file string
	var o bench.Options
	cmd := &cobra.Command{
		Use:   "allocate",
		Short: "Solve one rolling-horizon allocation on one thread",
		Long: `Solves an allocation as hu does at each interval and prints the plan, its value,
a certified bound, and whether the plan is proved to be optimal. It runs on one
thread, so that its processor time can be measured from outside.

--solver has the same problem solved by a mixed-integer solver instead, and
prints its plan with the certified bound, the value of Bellows' own plan, and
which one is better; both are valued again from their counts. highs runs inside this process
(scripts/setup solver fetches it); cbc is the program of Debian's package
coinor-cbc. --model says how the problem is put to it: paper is the model of
Hu et al., section 4.4, tight has one binary variable for each choice.
--write-model writes that as a file in the LP format besides.`,
		Args: command.Exactly(),
	}
	f := cmd.Flags()
	f.StringVar(&file, "instance", "", "the problem, as JSON: nodes, p, steps, counts, jobs of d, nmin, nmax, speed")
	f.IntVar(&o.Repeat, "repeat", 1, "solve it so many times and print the last")
	f.StringVar(&o.Solver, "solver", milp.Own, "who solves it: own, highs or cbc")
	f.StringVar(&o.Model, "model", string(milp.Tight), "how highs and cbc are asked, and what is written: tight or paper")
	f.DurationVar(&o.Limit, "limit", time.Minute, "how long highs or cbc may take each time")
	f.StringVar(&o.WriteModel, "write-model", "", "write the model to this file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return fault.Usage("--instance is missing: give a file")
		}
		if err := o.Check(); err != nil {
			return err
		}
		a, err := bench.Allocate(cmd.Context(), file, o)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(a)
	}
	return cmd
}
