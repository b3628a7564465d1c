package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/output"
	"github.com/bellows-ml/bellows/lab/rules/elasticflow"
	"github.com/bellows-ml/bellows/lab/rules/muri"
	"github.com/bellows-ml/bellows/lab/rules/pollux"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// simulation is what the flags of simulate say.
type simulation struct {
	traces         []string
	profile        string
	device         string
	flatten        bool
	nodes          []int
	devicesPerNode int
	failures       []string
	startCosts     string
	checkpoints    time.Duration
	policies       []string
	rules          string
	speed          string
	interval       time.Duration
	rescaleCost    time.Duration
	startDelay     time.Duration
	model          sim.Model
	plot           string
	atOnce         bool
	solver         string
	solverLimit    time.Duration
	out            *output.Format

	referee  *referee       // if solver is not our own
	overhead trace.Overhead // read from startCosts
}

// The values of --speed.
const (
	speedPaper   = "paper"
	speedProfile = "profile"
)

// addPlanning adds the commands that answer "what if": they need no cluster.
func addPlanning(root *cobra.Command) {
	const group = "planning"
	root.AddGroup(&cobra.Group{ID: group, Title: "Planning:"})
	for _, c := range []*cobra.Command{simulateCommand(), reproduceCommand(), benchCommand()} {
		c.GroupID = group
		root.AddCommand(c)
	}
}

func simulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run job traces through the decisions of production, in virtual time",
		Long: `Runs every combination of the traces, numbers of nodes and policies given, on all
cores. The coordinator and the policies are those of a real cluster; agents,
workers and users are simulated. The same flags give the same runs, byte for byte.

Traces are CSV, gzipped or not:
  ` + strings.Join(trace.Formats(), "\n  ") + `

--rules takes over the conventions of a published simulator:
  elasticflow  a decision a minute at most (--interval), fixed batches, measured
        speeds, deadlines; its policies are ` + strings.Join(elasticflow.Policies(), ", ") + `;
        --profile is its table of speeds (default: elasticflow_a100.csv in
        profiles beside the trace's folder)
  hu    jobs of 5 minutes or more cut to 3 days, a node counting as one device;
        flags that are given go before
  muri  rigid jobs, decisions at each event, its start costs; its policies are
        ` + strings.Join(muri.Policies(), ", ") + `
  pollux  decisions once a minute, measured steps and batches, 30 s a move; its
        policies are ` + strings.Join(pollux.Policies(), ", ") + `; --profile is the folder with
        its four tables (default: profiles beside the trace's folder)

Completion times are of the jobs that finished; queueing is all the time a job
had no devices. cost is device hours held, scaling_efficiency the work done for
each of them, additional_jobs_at_100 how many more than greedy had finished when
greedy had finished 100, additional_jobs_per_100 how many more are trained while
greedy trains 100, by the mean completions of the jobs that finished under both,
cpu_s the run's processor time.`,
		Args: exactly(),
	}
	s.flags(cmd.Flags())
	s.out = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := s.check(cmd.Flags()); err != nil {
			return err
		}
		done, err := s.run(cmd.Context())
		if err != nil {
			return err
		}
		compare(done)
		if s.plot != "" {
			if err := writePlot(s.plot, done); err != nil {
				return err
			}
		}
		return s.out.Write(os.Stdout, report{Runs: done}, func() error { return writeRuns(os.Stdout, done, output.StyleOf(os.Stdout)) })
	}
	return cmd
}

// run makes all runs and runs them.
func (s *simulation) run(ctx context.Context) (done []*simulated, err error) {
	if s.solver != solverOwn { // which may be a process of its own, not to be left behind
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err = s.openSolver(ctx); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.referee.solver.Close()) }()
	}
	runs, err := s.runs()
	if err != nil {
		return nil, err
	}
	return runAll(ctx, runs, output.StyleOf(os.Stderr))
}

func (s *simulation) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&s.traces, "trace", nil, "job traces, separated by commas; synthetic = drawn by --seed like those of Hu et al.")
	f.BoolVar(&s.atOnce, "at-once", false, "all jobs are submitted at the beginning")
	f.StringVar(&s.profile, "profile", "", "speeds of the trace's models; with --rules elasticflow its speeds, with muri its start costs, with pollux the folder of its tables")
	f.StringVar(&s.device, "device", "", "which device of the profile, if it has several")
	f.BoolVar(&s.flatten, "flatten", false, "where a profile's curve falls, let the surplus devices idle instead of refusing it")
	f.IntSliceVar(&s.nodes, "nodes", nil, "numbers of nodes, separated by commas")
	f.IntVar(&s.devicesPerNode, "devices-per-node", 1, "devices on each node")
	f.StringSliceVar(&s.policies, "policy", nil, "policies, separated by commas: "+strings.Join(policy.Names(), ", "))
	f.StringVar(&s.rules, "rules", "", "conventions of a published simulator: "+strings.Join(ruleNames(), ", "))
	f.StringVar(&s.speed, "speed", "", "speeds of jobs: paper (k·0.8^log2 k) or profile (default profile if --profile is given)")
	f.DurationVar(&s.interval, "interval", 5*time.Minute, "time between decisions that may move running jobs")
	f.DurationVar(&s.rescaleCost, "rescale-cost", 30*time.Second, "how long a job trains nothing after each start and rescale")
	f.DurationVar(&s.startDelay, "start-delay", 0, "how long starting the workers takes besides")
	f.StringVar(&s.startCosts, "start-costs", "", "table of what a start costs instead, by model and devices: gpus,model,start_overhead_s")
	f.StringSliceVar(&s.failures, "failures", nil, "nodes that go and come back, each as NODE@AFTER+LENGTH, say 0@1h+10m for the first node")
	f.DurationVar(&s.checkpoints, "checkpoint-every", 30*time.Minute, "how often jobs save by themselves, which is what a lost node costs (0 = never)")
	f.IntVar(&s.model.MaxWorkers, "max-workers", 16, "workers that an elastic job may have")
	f.BoolVar(&s.model.Rigid, "rigid", false, "jobs keep the number of workers that their users asked for")
	f.DurationVar(&s.model.Longest, "longest", 0, "cut durations to this (0 = do not)")
	f.DurationVar(&s.model.Shortest, "shortest", 0, "leave out jobs that are shorter")
	f.Float64Var(&s.model.ETANoise, "eta-noise", 0, "how far off users' estimates are: 0.1 = ±10 %")
	f.Float64Var(&s.model.Buggy, "buggy", 0, "share of jobs that a bug ends within 5 minutes of training")
	f.Float64Var(&s.model.Impatient, "terminated", 0, "share of jobs that their users stop at some time")
	f.Uint64Var(&s.model.Seed, "seed", 1, "of everything that is drawn")
	f.StringVar(&s.solver, "solver", solverOwn, "who answers policy hu's questions: own, or highs or cbc, a reference that takes far longer; what it found is in -o json")
	f.DurationVar(&s.solverLimit, "solver-limit", time.Minute, "how long highs or cbc may take for one question; runs in which they take it all are not the same on every machine")
	f.StringVar(&s.plot, "plot", "", "also draw mean completion against nodes, as .svg or .html")
}

// check finds faults of the command line, all at once, and applies what rules take over.
func (s *simulation) check(f *pflag.FlagSet) error {
	var faults []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	unless := func(flag string, set func()) {
		if !f.Changed(flag) {
			set()
		}
	}
	rules, known := ruleSets()[s.rules]
	demand(known, "--rules %q: use one of %s", s.rules, strings.Join(ruleNames(), ", "))
	if rules.take != nil {
		rules.take(s, unless)
	}
	if s.speed == "" {
		s.speed = speedPaper
		if s.profile != "" && rules.policies == nil {
			s.speed = speedProfile
		}
	}
	demand(s.speed == speedPaper || s.speed == speedProfile, "--speed %q: use paper or profile", s.speed)
	demand(s.speed != speedProfile || s.profile != "", "--speed profile: give --profile")
	demand(len(s.traces) > 0, "--trace is missing: give one or more files")
	demand(len(s.nodes) > 0, "--nodes is missing: give one or more numbers")
	demand(len(s.policies) > 0, "--policy is missing: give one or more of %s", strings.Join(s.known(), ", "))
	for _, n := range s.nodes {
		demand(n > 0, "--nodes %d: use 1 or more", n)
	}
	demand(s.devicesPerNode > 0, "--devices-per-node %d: use 1 or more", s.devicesPerNode)
	demand(s.model.MaxWorkers > 0, "--max-workers %d: use 1 or more", s.model.MaxWorkers)
	demand(s.interval > 0 || rules.policies != nil, "--interval %v: use a positive duration such as 5m", s.interval)
	demand(s.rescaleCost >= 0, "--rescale-cost %v: use 0 or more", s.rescaleCost)
	demand(s.startDelay >= 0, "--start-delay %v: use 0 or more", s.startDelay)
	demand(s.checkpoints >= 0, "--checkpoint-every %v: use 0 or more", s.checkpoints)
	s.checkSolver(demand)
	_, failuresErr := s.lost()
	demand(failuresErr == nil, "--failures %w", failuresErr)
	demand(s.startCosts == "" || rules.policies == nil, "--start-costs: --rules %s says what a start costs", s.rules)
	demand(s.model.ETANoise >= 0 && s.model.ETANoise < 1, "--eta-noise %v: use 0 or more and less than 1", s.model.ETANoise)
	demand(s.model.Buggy >= 0 && s.model.Impatient >= 0 && s.model.Buggy+s.model.Impatient <= 1,
		"--buggy %v, --terminated %v: use shares that make at most 1 together", s.model.Buggy, s.model.Impatient)
	demand(s.plot == "" || strings.HasSuffix(s.plot, ".svg") || strings.HasSuffix(s.plot, ".html"), "--plot %q: name a file that ends in .svg or .html", s.plot)
	if err := errors.Join(faults...); err != nil {
		return fault.Usage("%w", err)
	}
	return nil
}

// remedied adds the flag that helps where a profile's curve falls.
func (s *simulation) remedied(err error) error {
	if err != nil && s.speed == speedProfile && !s.flatten {
		return fmt.Errorf("%w\n(--flatten lets the surplus devices idle where a curve falls)", err)
	}
	return err
}
