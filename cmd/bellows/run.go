package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/output"
	"github.com/bellows-ml/bellows/internal/units"
)

// requestAttempts bounds how often a request whose fate is unknown is sent. It has
// the same identifier each time, so it is carried out once at most.
const requestAttempts = 3

// runFlags are the fields of a spec as flags.
type runFlags struct {
	name, workdir, checkpointDir, batch, deadline, envFile, process string
	env                                                             []string
	nodes, notNodes                                                 []string
	deviceModel                                                     string
	deviceMemory, memoryPerWorker                                   units.Bytes
	cpusPerWorker                                                   float64
	noNewPrivs                                                      bool
	min, max, priority, maxRestarts                                 int
	sizes                                                           []int
	steps                                                           int64
	eta, haltTimeout, timeLimit                                     time.Duration
	detach                                                          bool
}

func runCommand() *cobra.Command {
	var f runFlags
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

Exit status: the job's own (that of its first failing worker; 1 if there is none),
124 if its time limit has ended it, 0 after detaching as asked, 130 and 143 after
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
			spec, err := f.spec(cmd, args)
			if err != nil {
				return err
			}
			client, socket := agentOf(cmd)
			reply, err := submit(cmd.Context(), client, spec)
			if err != nil {
				return explain(err, socket)
			}
			announce(reply)
			if f.detach {
				fmt.Fprintln(os.Stdout, reply.ID)
				return nil
			}
			return explain(follow(cmd.Context(), client, reply.ID), socket)
		},
	}
	f.register(cmd)
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	return cmd
}

func (f *runFlags) register(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&f.name, "name", "", "name of the job, unique among those that have not ended (default: the script's)")
	p.IntVar(&f.min, "min", cluster.DefaultMinWorkers, "smallest number of workers")
	p.IntVar(&f.max, "max", cluster.DefaultMaxWorkers, "largest number of workers")
	p.IntSliceVar(&f.sizes, "world-sizes", nil, "the numbers of workers it can run with, such as 3,6,12 (default: powers of two)")
	p.StringVar(&f.process, "process", perDevice, "what a worker is: per-device, or per-node: one process with all the devices of its node, for JAX, accelerate or a nested torchrun")
	p.StringVar(&f.batch, "batch-size", strconv.Itoa(cluster.DefaultBatchSize), "samples a step over all workers, smallest[:largest]")
	p.StringVar(&f.workdir, "workdir", "", "where the workers start; the same path on every node (default: here)")
	p.StringArrayVar(&f.env, "env", nil, "set NAME=VALUE for the workers, or pass NAME on from here; may be repeated")
	p.StringVar(&f.envFile, "env-file", "", "file of NAME=VALUE lines for the workers, such as passwords; each node reads it, at the same path and as you, and nothing of it is recorded")
	p.StringVar(&f.checkpointDir, "checkpoint-dir", "", "where the job saves, on every node (default: checkpoints in its workdir)")
	p.StringSliceVar(&f.nodes, "node", nil, "run it on these nodes only; may be repeated")
	p.StringSliceVar(&f.notNodes, "exclude-node", nil, "do not run it on these nodes; may be repeated")
	p.StringVar(&f.deviceModel, "device-model", "", "run it on nodes whose devices have this in their model's name, such as h100")
	p.Var(&f.deviceMemory, "device-memory", "run it on nodes whose devices have so much memory or more, such as 40G")
	p.Var(&f.memoryPerWorker, "memory-per-worker", "kill a worker, with what it has started, that uses more memory than this, such as 32G; swap is not used")
	p.BoolVar(&f.noNewPrivs, "no-new-privs", false, "let no worker, nor what it starts, become another user by setuid programs such as sudo")
	p.Float64Var(&f.cpusPerWorker, "cpus-per-worker", 0, "let a worker, with what it has started, use no more processors than this, such as 4 or 0.5")
	p.IntVar(&f.priority, "priority", 0, "-100 to 100; higher goes first")
	p.StringVar(&f.deadline, "deadline", "", "when it is needed: a time such as 2026-01-31T18:00:00Z, or from now such as 2h30m")
	p.Int64Var(&f.steps, "steps", 0, "optimiser steps in all, if known: gives progress and a time of arrival")
	p.DurationVar(&f.eta, "eta", 0, "how long it takes on one device, if known")
	p.DurationVar(&f.timeLimit, "time-limit", 0, "how long it may be running in all, as in 12h: it then saves and ends, with exit status 124 (default: no limit)")
	p.IntVar(&f.maxRestarts, "max-restarts", cluster.DefaultMaxRestarts, "failures of its workers that the job survives; 0 = none")
	p.DurationVar(&f.haltTimeout, "halt-timeout", time.Duration(cluster.DefaultHaltTimeout), "how long the script may take to save when it is halted")
	p.BoolVarP(&f.detach, "detach", "d", false, "print the job's identifier and do not follow it")
}

func (f *runFlags) where() cluster.Where {
	return cluster.Where{
		Nodes: nodeIDs(f.nodes), Not: nodeIDs(f.notNodes), DeviceModel: f.deviceModel, DeviceMemoryBytes: uint64(f.deviceMemory),
	}
}

func nodeIDs(names []string) []cluster.NodeID {
	var ids []cluster.NodeID
	for _, n := range names {
		ids = append(ids, cluster.NodeID(n))
	}
	return ids
}

// refuseZeros refuses what was given as nothing: left out it would mean the default.
func (f *runFlags) refuseZeros(cmd *cobra.Command, refuse func(flag, format string, args ...any)) {
	for _, zero := range []struct {
		flag, remedy string
		value        int64
	}{
		{"min", "0: use 1 or more", int64(f.min)},
		{"max", "0: use 1 or more", int64(f.max)},
		{"steps", "0: use 1 or more, or leave it out if it is not known", f.steps},
		{"eta", "0s: use a time above zero such as 3h, or leave it out if it is not known", int64(f.eta)},
		{"cpus-per-worker", "0: use processors above zero such as 4 or 0.5, or leave it out if there is no limit", int64(math.Ceil(math.Abs(f.cpusPerWorker)))},
		{"time-limit", "0s: use a time above zero such as 12h, or leave it out if there is none", int64(f.timeLimit)},
		{"halt-timeout", "0s: use a time above zero such as 2m; a script that has nothing to save ends at once anyway", int64(f.haltTimeout)},
	} {
		if zero.value == 0 && cmd.Flags().Changed(zero.flag) {
			refuse(zero.flag, "%s", zero.remedy)
		}
	}
}

// spec makes a whole, checked spec of the flags. All faults come at once.
func (f *runFlags) spec(cmd *cobra.Command, command []string) (cluster.Spec, error) {
	var bad []error
	refuse := func(flag, format string, args ...any) {
		bad = append(bad, fmt.Errorf("--"+flag+" "+format, args...))
	}
	f.refuseZeros(cmd, refuse)
	if f.steps != 0 && f.eta != 0 {
		refuse("eta", "%s: --steps says already how much work there is; give one of them", f.eta)
	}
	s := cluster.Spec{
		Name: f.name, Command: command, Workdir: f.workdir, CheckpointDir: f.checkpointDir, EnvFile: f.envFile,
		MinWorkers: f.min, MaxWorkers: f.max, Sizes: f.sizes,
		Where: f.where(), PerWorker: cluster.Limits{MemoryBytes: uint64(f.memoryPerWorker), CPUs: f.cpusPerWorker},
		Priority: f.priority, Steps: f.steps, ETA: cluster.Duration(f.eta), MaxRestarts: f.maxRestarts, HaltTimeout: cluster.Duration(f.haltTimeout),
		TimeLimit: cluster.Duration(f.timeLimit), NoNewPrivs: f.noNewPrivs,
	}
	if !cmd.Flags().Changed("max") {
		s.MaxWorkers = 0 // the default grows with --min
	}
	if len(f.sizes) > 0 && !cmd.Flags().Changed("min") {
		s.MinWorkers = 0 // the default is the first size
	}
	var err error
	if s.PerNode, err = perNode(f.process); err != nil {
		refuse("process", "%w", err)
	}
	if s.BatchSize, err = batchSize(f.batch); err != nil {
		refuse("batch-size", "%w", err)
		s.BatchSize = cluster.BatchSize{} // said once is enough
	}
	if f.deadline != "" {
		if s.Deadline, err = units.Deadline(f.deadline, time.Now()); err != nil {
			refuse("deadline", "%w", err)
		}
	}
	if s.Env, err = submitterEnvironment(f.env); err != nil {
		bad = append(bad, err)
		s.Env = map[string]string{"PATH": os.Getenv("PATH")} // enough to check the rest
	}
	if cmd.Flags().Changed("name") && f.name == "" {
		refuse("name", "is empty: use 1 to %d letters, digits, '.', '_' or '-'", cluster.MaxNameBytes)
	}
	base, err := os.Getwd()
	if err != nil {
		return s, fmt.Errorf("find this folder: %w: go to one that exists", err)
	}
	if s, err = complete(s, base); err == nil {
		err = prepare(s, len(bad) > 0)
	}
	if err = flagFaults(err); err != nil {
		bad = append(bad, err)
	}
	if len(bad) > 0 {
		return s, fault.AsUsage(errors.Join(bad...))
	}
	return s, nil
}

// submit sends a job to the agent, again if its fate is unknown.
func submit(ctx context.Context, client *api.Client, spec cluster.Spec) (reply api.SubmitReply, err error) {
	req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec}
	err = insist(func() error {
		reply, err = client.Submit(ctx, req)
		return err
	})
	return reply, err
}

// insist sends a request, again if its fate is unknown.
func insist(send func() error) error {
	for attempt := 1; ; attempt++ {
		if err := send(); api.CodeOf(err) != api.Unavailable || attempt == requestAttempts {
			return err
		}
	}
}

// announce says what became of a submission.
func announce(reply api.SubmitReply) {
	for _, w := range reply.Warnings {
		fmt.Fprintln(os.Stderr, "warning: "+output.OneLine(w))
	}
	if reply.Leader == "" {
		fmt.Fprintf(os.Stderr, "%s: accepted, queued: no coordinator leads\n", reply.ID)
		return
	}
	fmt.Fprintf(os.Stderr, "%s: accepted\n", reply.ID)
}
