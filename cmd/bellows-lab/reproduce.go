package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/reproduce"
	"github.com/bellows-ml/bellows/lab/simulate"
)

func reproduceCommand() *cobra.Command {
	var o reproduce.Options
	names := reproduce.Names()
	cmd := &cobra.Command{
		Use:   "reproduce " + strings.Join(names, "|"),
		Short: "Repeat published experiments, next to the published values",
		Long: `Runs the experiments of a paper in the simulator and writes each figure next to the
published one, with the simulate commands that give the same:

  elasticflow  ElasticFlow's simulator (ASPLOS 2023) on its traces: its own policy, its
          baselines, and production's elasticflow and default: how many deadlines are kept
  hu      Hu et al., section 5, figures 9 to 16: queueing and total time, jobs
          finished beyond greedy's 100, all jobs instead of the long ones, wrong
          estimates, bugs and impatient users, a delay of each start, decision
          times; with a pause of 30 s at each start, and without as in the
          paper. Its trace is not public: windows of Philly and a drawn load like
          it are used instead, so compare shapes, not values
  jahani  Jahani et al., section V, figures 2 and 5, on instances drawn as it says
          (it gives no times of trainings): costs beside FIFO, EDF and priorities,
          certified gaps, decision times, and CBC on the same model
  muri    the policies of Muri's simulator (SIGCOMM 2022) on its traces
  pollux  the baselines of Pollux's simulator (OSDI 2021) on its workloads
  saxena  Saxena et al. (MASCOTS 2020), Tables III and IV: elastic scaling that
          chooses the batch, against one that keeps it, with drops and queues, and
          production's saxena and flowtime beside them. Its load is not public, and is drawn
  wei     Wei and Shudo (2020), Table 2: two tasks on 4 devices, and eight on 32,
          under convergence, which sees their losses, and share, the paper's training
          without adjustment. The paper's loss curves are not public; those here are stated

--traces is a folder with elasticflow, philly, muri, pollux and profiles below it.
jahani, saxena and wei read none. They use all cores. On one core pollux takes half a minute,
wei a second, jahani 5 minutes, saxena 8, elasticflow 20, hu 27 and muri 30. --quick makes a part
of each within a minute.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return fault.Usage("reproduce: name one of %s", strings.Join(names, ", "))
			}
			return nil
		},
		ValidArgs: names,
	}
	cmd.Flags().StringVar(&o.Traces, "traces", "traces", "the folder of the published traces")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "fewer sizes, traces and policies")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Parse, o.Progress = func(args []string) (*batch.Settings, error) { return simulate.Parse(everything(), args) }, simulate.ShowProgress(os.Stderr)
		r, err := reproduce.Run(cmd.Context(), args[0], o)
		if err != nil {
			return err
		}
		return out.Write(os.Stdout, r, func() error { return writeReproduction(os.Stdout, r, output.StyleOf(os.Stdout)) })
	}
	return cmd
}

func writeReproduction(w io.Writer, r reproduce.Report, s output.Style) error {
	t := output.Table{Head: []string{"FIGURE", "NODES", "POLICY", "QUANTITY", "MEASURED", "PUBLISHED", "DIFFERENCE", "TRACE"}}
	for _, f := range r.Rows {
		published, difference := "-", "-"
		if f.Published != nil {
			published = short(*f.Published)
			difference = fmt.Sprintf("%+.2f %%", *f.Percent)
		}
		if f.Note != "" {
			difference = f.Note
		}
		t.Add(f.Figure, strconv.Itoa(f.Nodes), f.Policy, f.Quantity, short(f.Ours), published, difference, f.Trace)
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	for i, c := range r.Commands {
		head := ""
		if i == 0 {
			head = "\nThe same by hand:\n"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", head, c.Text); err != nil {
			return err
		}
	}
	return nil
}

// short writes a number with as many digits as it has to say.
func short(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
