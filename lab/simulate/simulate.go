// Package simulate is the command `simulate` of bellows and of bellows-lab. They
// differ in the batch.Lab that they hand over: the conventions of other simulators and other
// solvers are bellows-lab's alone.
//
// It promises that a flag which needs one of these is there only where they are.
package simulate

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/plot"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Command is the command.
func Command(lab batch.Lab) *cobra.Command {
	var picture string
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run job traces through the decisions of production, in virtual time",
		Long:  long(lab),
		Args:  command.Exactly(),
	}
	s := addFlags(cmd.Flags(), lab)
	cmd.Flags().StringVar(&picture, "plot", "", "also draw mean completion against nodes, as .svg or .html")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var faults fault.List
		faults.Add(s.Complete(cmd.Flags().Changed))
		faults.Add(plot.CheckName(picture))
		if err := faults.Err(); err != nil {
			return err
		}
		runs, err := s.Do(cmd.Context(), ShowProgress(os.Stderr))
		if err != nil {
			return err
		}
		if picture != "" {
			if err := plot.Write(picture, runs); err != nil {
				return err
			}
		}
		return out.Write(os.Stdout, batch.Report{Runs: runs}, func() error { return write(os.Stdout, runs, output.StyleOf(os.Stdout)) })
	}
	return cmd
}

// long is the help of the command.
func long(lab batch.Lab) string {
	more := ""
	if lab.Rules == nil {
		more = "\n\n'bellows-lab simulate' ('make build' in the sources makes it) has the conventions of\nother simulators, and other solvers."
	}
	return `Runs every combination of the traces, numbers of nodes and policies given, on all
cores. The coordinator and the policies are those of a real cluster; agents,
workers and users are simulated. The same flags give the same runs, byte for byte.

Traces are CSV, gzipped or not:
  ` + strings.Join(trace.Formats(), "\n  ") + `

--rules takes over the conventions of a published experiment or simulator:
` + lab.AboutRules() + `All policies run under all rules; where the rules have one of the same name,
production/NAME is the other.

Completion times are of the jobs that finished; queueing is all the time a job
had no devices. cost is device hours held, scaling_efficiency the work done for
each of them, additional_jobs_at_100 how many more than greedy had finished when
greedy had finished 100, additional_jobs_per_100 how many more are trained while
greedy trains 100, by the mean completions of the jobs that finished under both,
cpu_s the run's processor time. Where nodes have several devices, a second
table tells how much of the idle device time was on nodes that were partly used
(fragmentation), how much of the jobs' was on more nodes or groups than needed
(apart), each beside best fit without aligned blocks for the same sizes at the
same times, and how many jobs moved in an hour. With --know other than all, ends_covered is how
often jobs ended within the range that was predicted, and end_error_at_25 the
median error after a quarter of their time.` + more
}

// Parse reads the arguments of the command, without --plot and --output.
func Parse(lab batch.Lab, args []string) (*batch.Settings, error) {
	f := flags.New("simulate")
	s := addFlags(f, lab)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return s, s.Complete(f.Changed)
}

// addFlags adds the flags that fill settings.
func addFlags(f *flags.Set, lab batch.Lab) *batch.Settings {
	s := &batch.Settings{Lab: lab, Solver: batch.OwnSolver, SolverLimit: time.Minute}
	f.StringSliceVar(&s.Traces, "trace", nil, "job traces, separated by commas; synthetic = drawn by --seed like those of Hu et al.")
	f.BoolVar(&s.AtOnce, "at-once", false, "all jobs are submitted at the beginning")
	f.StringVar(&s.Profile, "profile", "", "speeds of the trace's models; some --rules read another table, or a folder of them")
	f.StringVar(&s.Device, "device", "", "which device of the profile, if it has several; with --device-models that on which the trace's durations were measured (default the first)")
	f.BoolVar(&s.Flatten, "flatten", false, "where a profile's curve falls, leave the surplus devices idle instead of refusing it")
	f.IntSliceVar(&s.Nodes, "nodes", nil, "numbers of nodes, separated by commas")
	f.StringSliceVar(&s.Mixed, "device-models", nil, "instead of --nodes, nodes with devices of several models of the profile, each as MODEL=NODES: v100=3,k80=6")
	f.BoolVar(&s.IgnoreModels, "ignore-models", false, "with --device-models: decide as if all devices were of one, to compare")
	f.IntVar(&s.DevicesPerNode, "devices-per-node", 1, "devices on each node")
	f.StringVar(&s.DeviceGroups, "device-groups", "", "which devices of each node are close to each other, as of an agent: 0-3/4-7")
	f.IntVar(&s.NodesPerRack, "nodes-per-rack", 0, "so many nodes are in rack1, the next ones in rack2, …; 0 = in none")
	f.IntVar(&s.Migrations, "migrations", 0, "how many running jobs may be moved in an interval so that others are closer together, as of a coordinator, whose default is 1")
	f.Float64Var(&s.SpanLoss, "span-loss", 0, "the share of its speed that a job loses on more nodes than it needs; decisions assume 0.1 unless --know leaves speeds to be measured")
	f.StringSliceVar(&s.Policies, "policy", nil, "policies, separated by commas (default "+policy.Default+", but for rules with policies of their own): "+policy.Usage())
	f.StringVar(&s.Rules, "rules", "", "conventions of a published experiment or simulator: "+strings.Join(s.RuleNames(), ", "))
	f.StringVar(&s.Source, "speed", "", "speeds of jobs: paper (k·0.8^log2 k) or profile (default profile if --profile is given)")
	f.DurationVar(&s.Interval, "interval", 5*time.Minute, "time between decisions that may move running jobs")
	f.DurationVar(&s.RescaleCost, "rescale-cost", 30*time.Second, "how long a job trains nothing after each start and rescale")
	f.DurationVar(&s.StartDelay, "start-delay", 0, "how long starting the workers takes besides")
	f.StringVar(&s.StartCosts, "start-costs", "", "table of what a start costs instead, by model and devices: gpus,model,start_overhead_s")
	f.StringSliceVar(&s.Failures, "failures", nil, "nodes that go and come back, each as NODE@AFTER+LENGTH, say 0@1h+10m for the first node")
	f.DurationVar(&s.CheckpointEvery, "checkpoint-every", 30*time.Minute, "how often jobs save by themselves, which is what a lost node costs (0 = never)")
	f.IntVar(&s.Model.MaxWorkers, "max-workers", 16, "workers that an elastic job may have")
	f.BoolVar(&s.Model.Rigid, "rigid", false, "jobs keep the number of workers that their users asked for")
	f.DurationVar(&s.Model.Longest, "longest", 0, "cut durations to this (0 = do not)")
	f.DurationVar(&s.Model.Shortest, "shortest", 0, "leave out jobs that are shorter")
	f.Float64Var(&s.Model.ETANoise, "eta-noise", 0, "how far off users' estimates are: 0.1 = ±10 %")
	f.Float64Var(&s.Model.Buggy, "buggy", 0, "share of jobs that a bug ends within 5 minutes of training")
	f.Float64Var(&s.Model.Impatient, "terminated", 0, "share of jobs that their users stop at some time")
	f.Uint64Var(&s.Model.Seed, "seed", 1, "of everything that is drawn")
	f.StringVar(&s.Know, "know", string(sim.KnowAll), "what is told of jobs before they run, in the records of a cluster; the rest is measured: "+strings.Join(sim.Knows(), ", "))
	f.BoolVar(&s.Foretell, "foretell", false, "predict the start of each job that has to wait when it comes, and compare: starts_told, starts_covered, starts_uncertain, start_error of -o json")
	if lab.OpenSolver == nil {
		f.StringVar(&s.Solver, "solver", s.Solver, "")
		f.BoolVar(&s.BatchRanges, "batch-ranges", false, "")
		for _, name := range []string{"solver", "batch-ranges"} {
			f.Lookup(name).Hidden = true // they are bellows-lab's, which Complete says
		}
	}
	if lab.Rules != nil {
		f.BoolVar(&s.BatchRanges, "batch-ranges", false, "with --rules pollux: jobs may have any batch that was measured of their model, instead of their users'")
	}
	if lab.OpenSolver != nil {
		f.StringVar(&s.Solver, "solver", s.Solver, "the solver that answers policy hu's questions: own, or highs or cbc, a reference that takes far longer; -o json compares them")
		f.DurationVar(&s.SolverLimit, "solver-limit", s.SolverLimit, "how long highs or cbc may take for one question; where they reach the limit, runs are not the same on every machine")
	}
	return s
}

// ShowProgress draws a bar where f is a terminal, and clears it at the end.
func ShowProgress(f *os.File) batch.Progress {
	s := output.StyleOf(f)
	if !s.Terminal {
		return nil
	}
	drawn := false
	return func(ended, of int, done bool) {
		switch {
		case !done:
			drawn = true
			fmt.Fprint(f, "\r"+s.Paint(output.Faint, output.Bar(ended, of, "jobs")))
		case drawn:
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}

// write writes the runs as tables.
func write(w io.Writer, runs []*batch.Run, s output.Style) error {
	t := output.Table{Head: []string{
		"POLICY", "NODES", "FINISHED", "COMPLETION", "MEDIAN", "P95", "QUEUEING", "RESCALES", "EFFICIENCY", "DEADLINES", "DECISION", "CPU", "TRACE",
	}}
	for _, r := range runs {
		t.Add(r.Policy, strconv.Itoa(r.Nodes), fmt.Sprintf("%d/%d", r.Finished, r.Jobs),
			fmt.Sprintf("%.2f s", r.MeanCompletionS), fmt.Sprintf("%.0f s", r.MedianCompletionS), fmt.Sprintf("%.0f s", r.P95CompletionS),
			fmt.Sprintf("%.0f s", r.MeanQueueingS), fmt.Sprintf("%.2f", r.RescalesPerJob), percent(r.ScalingEfficiency), share(r.DeadlineSatisfied),
			fmt.Sprintf("%.2f ms", r.DecisionMSMean), units.Seconds(r.CPUS), r.Trace)
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	return writePlacement(w, runs, s)
}

// writePlacement tells how close together jobs were, of runs in which nodes have several devices.
func writePlacement(w io.Writer, runs []*batch.Run, s output.Style) error {
	t := output.Table{Head: []string{"POLICY", "NODES", "PLACEMENT", "FRAGMENTATION", "APART", "APART IN GROUPS", "MIGRATIONS", "TRACE"}}
	several := false
	for _, r := range runs {
		if r.Placement.Apart == nil {
			continue
		}
		several = true
		add := func(by string, p sim.Placed, moves float64) {
			t.Add(r.Policy, strconv.Itoa(r.Nodes), by, share(p.Fragmentation), share(p.Apart), share(p.ApartInGroups), fmt.Sprintf("%.2f/h", moves), r.Trace)
		}
		add("bellows", r.Placement, r.MigrationsPerHour)
		add("best fit", r.BestFit, 0)
	}
	if !several {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w, s)
}

// share is a share in percent, or a dash where there is none.
func share(v *float64) string {
	if v == nil {
		return "-"
	}
	return percent(*v)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
