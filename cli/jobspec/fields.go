package jobspec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cluster"
)

// draft is what has been read of a spec so far.
type draft struct {
	spec cluster.Spec
	env  []string  // NAME=VALUE, or NAME for the submitter's
	now  time.Time // deadlines that are given as "from now" begin here
}

func newDraft() *draft {
	return &draft{spec: cluster.Spec{MaxRestarts: cluster.DefaultMaxRestarts}, now: time.Now()}
}

// field is one field of a spec.
type field struct {
	key   string // of a job file; the flag is --key
	word  string // what package cluster calls it in its errors, which begin with it; empty = it has none
	usage string // of the flag
	kind  kind
	zero  string // why an explicit zero is refused, and the remedy; empty = zero is a value
}

// flag is how the field is called on the command line.
func (f field) flag() string {
	if f.key == "command" {
		return f.key // the arguments
	}
	return "--" + f.key
}

// fields is the table of all fields of a spec. What has no row cannot be set.
var fields = []field{
	{"command", "command", "", command(), ""},
	{"name", "name", "name of the job, unique among those that have not ended (default: the script's)", jobName(), ""},
	{
		"kind", "kind", "name for all jobs of the same training: what one shows of its speed, the next begins with (default: its script and a digest of its arguments)",
		text(func(d *draft) *string { return &d.spec.Kind }), "",
	},
	{
		"min", "min workers", "smallest number of workers",
		whole(1, cluster.DefaultMinWorkers, func(d *draft) *int { return &d.spec.MinWorkers }), "0: use 1 or more",
	},
	{
		"max", "max workers", "largest number of workers",
		whole(1, cluster.DefaultMaxWorkers, func(d *draft) *int { return &d.spec.MaxWorkers }), "0: use 1 or more",
	},
	{
		"world-sizes", "world sizes", "the numbers of workers it can run with, such as 3,6,12 (default: powers of two)",
		wholes(func(d *draft) *[]int { return &d.spec.Sizes }), "",
	},
	{
		"process", "", "what a worker is: per-device, or per-node: one process with all the devices of its node, for JAX, accelerate or a nested torchrun",
		read(perDevice, func(d *draft, text string) (err error) { d.spec.PerNode, err = perNode(text); return err }), "",
	},
	{
		"batch-size", "batch size", "samples a step over all workers, smallest[:largest]",
		read(fmt.Sprint(cluster.DefaultBatchSize), func(d *draft, text string) (err error) {
			uneven := d.spec.BatchSize.Uneven
			d.spec.BatchSize, err = batchSize(text)
			d.spec.BatchSize.Uneven = uneven
			return err
		}), "",
	},
	{
		"uneven-batch", "uneven batch", "the workers' shares of the batch may differ by one sample, for numbers of workers that do not divide it; the script has to weigh them",
		truth(func(d *draft) *bool { return &d.spec.BatchSize.Uneven }), "",
	},
	{
		"micro-batch", "micro batch", "samples that a device takes at once, accumulating its share (default: its share in the largest world)",
		whole(1, 0, func(d *draft) *int { return &d.spec.Training.MicroBatch }), "0: use 1 or more, or leave it out",
	},
	{
		"logical-workers", "logical workers", "parts that each step is cut into whatever the number of workers, so that sums are of the same parts in the same order; a power of two (default: one for each worker)",
		whole(1, 0, func(d *draft) *int { return &d.spec.Training.LogicalWorkers }), "0: use a power of two, or leave it out",
	},
	{
		"lr-rule", "lr rule", "how the learning rate follows a batch that grows: linear, sqrt or none; the script asks for the factor (default: none)",
		text(func(d *draft) *string { return &d.spec.Training.LRRule }), "",
	},
	{
		"lr-warmup", "lr warmup", "steps in which a change of the learning rate by --lr-rule is made (default: at once)",
		whole(1, 0, func(d *draft) *int { return &d.spec.Training.LRWarmup }), "0: use 1 or more, or leave it out",
	},
	{
		"workdir", "workdir", "where the workers start; the same path on every node (default: here)",
		text(func(d *draft) *string { return &d.spec.Workdir }), "",
	},
	{
		"env-file", "env file", "file of NAME=VALUE lines for the workers, such as passwords; each node reads it, at the same path and as you, and nothing of it is recorded",
		text(func(d *draft) *string { return &d.spec.EnvFile }), "",
	},
	{"env", "env", "set NAME=VALUE for the workers, or pass NAME on from here; may be repeated", environment(), ""},
	{
		"checkpoint-dir", "checkpoint dir", "where the job saves, on every node (default: checkpoints in its workdir)",
		text(func(d *draft) *string { return &d.spec.CheckpointDir }), "",
	},
	{
		"node", "node", "run it on these nodes only; may be repeated",
		names(func(d *draft) *[]cluster.NodeID { return &d.spec.Where.Nodes }), "",
	},
	{
		"exclude-node", "exclude node", "do not run it on these nodes; may be repeated",
		names(func(d *draft) *[]cluster.NodeID { return &d.spec.Where.Not }), "",
	},
	{
		"device-model", "", "run it on nodes whose devices have this in their model's name, such as h100",
		text(func(d *draft) *string { return &d.spec.Where.DeviceModel }), "",
	},
	{
		"prefer-model", "prefer model", "run it preferably on devices with this in their model's name: they count as twice as fast",
		text(func(d *draft) *string { return &d.spec.Where.PreferModel }), "",
	},
	{
		"mix-models", "", "if no model has as many devices as its smallest world needs, let it have devices of several models at once",
		truth(func(d *draft) *bool { return &d.spec.Where.MixModels }), "",
	},
	{
		"device-memory", "", "run it on nodes whose devices have so much memory or more, such as 40G",
		size(func(d *draft) *uint64 { return &d.spec.Where.DeviceMemoryBytes }), "",
	},
	{
		"memory-per-worker", "memory per worker", "kill a worker, with what it has started, that uses more memory than this, such as 32G; swap is not used",
		size(func(d *draft) *uint64 { return &d.spec.PerWorker.MemoryBytes }), "",
	},
	{
		"cpus-per-worker", "cpus per worker", "let a worker, with what it has started, use no more processors than this, such as 4 or 0.5",
		processors(func(d *draft) *float64 { return &d.spec.PerWorker.CPUs }),
		"0: use processors above zero such as 4 or 0.5, or leave it out if there is no limit",
	},
	{
		"no-new-privs", "", "let no worker, nor what it starts, become another user by setuid programs such as sudo",
		truth(func(d *draft) *bool { return &d.spec.NoNewPrivs }), "",
	},
	{
		"priority", "priority", "-100 to 100; higher goes first",
		whole(-cluster.MaxPriority, 0, func(d *draft) *int { return &d.spec.Priority }), "",
	},
	{
		"deadline", "deadline", "when it has to have ended: a time such as 2026-01-31T18:00:00Z, the next 18:00, or from now such as +2h30m; the job is refused, with what could be promised, where the coordinator cannot promise that",
		read("", deadline), "",
	},
	{
		"grace", "grace", "for how long after its deadline an end is of use still, the less the later: where the deadline cannot be promised, the earliest end within this is",
		duration(0, func(d *draft) *cluster.Duration { return &d.spec.Grace }),
		"0s: use a time above zero such as 2h, or leave it out if the deadline is all that counts",
	},
	{
		"or-best-effort", "or best effort", "run it without a promise where its deadline cannot be promised",
		truth(func(d *draft) *bool { return &d.spec.OrBestEffort }), "",
	},
	{
		"steps", "steps", "optimiser steps in all, if known: gives progress, and with the measured speed the work left and the predicted end",
		whole(1, 0, func(d *draft) *int64 { return &d.spec.Steps }), "0: use 1 or more, or leave it out if it is not known",
	},
	{
		"progress", "progress", `read the step from the script's own lines: a pattern such as 'step (\d+)', with groups step, loss and samples, or auto for the bars of common trainers`,
		text(func(d *draft) *string { return &d.spec.Progress }), "",
	},
	{
		"eta", "eta", "how long it takes on one device, as you estimate; with --steps it counts until the speed is measured",
		duration(0, func(d *draft) *cluster.Duration { return &d.spec.ETA }),
		"0s: use a time above zero such as 3h, or leave it out if it is not known",
	},
	{
		"time-limit", "time limit", "how long it may be running in all, as in 12h: it then saves and ends, with exit status 124 (default: no limit)",
		duration(0, func(d *draft) *cluster.Duration { return &d.spec.TimeLimit }),
		"0s: use a time above zero such as 12h, or leave it out if there is none",
	},
	{
		"max-restarts", "max restarts", "failures of its workers that the job survives; 0 = none",
		whole(0, cluster.DefaultMaxRestarts, func(d *draft) *int { return &d.spec.MaxRestarts }), "",
	},
	{
		"cold-start", "", "start each worker only when it is needed; by default the next workers of a Python script are started early and wait in the script, before it looks at or changes anything outside, so that rescales and restarts take less time",
		truth(func(d *draft) *bool { return &d.spec.ColdStart }), "",
	},
	{
		"ready-fd", "ready fd", "the command can start early and wait: it says at the descriptor in BELLOWS_READY_FD that it is ready, and begins once it is told to (docs/environment.md)",
		truth(func(d *draft) *bool { return &d.spec.ReadyFD }), "",
	},
	{
		"halt-timeout", "halt timeout", "how long the script may take to save when it is halted",
		duration(cluster.DefaultHaltTimeout, func(d *draft) *cluster.Duration { return &d.spec.HaltTimeout }),
		"0s: use a time above zero such as 2m; a script that has nothing to save ends at once anyway",
	},
}

// Groups are the fields as the help of a command shows them: by what a submitter wants to say. Each field is in one. Commands
// add flags of their own to the last two.
func Groups() []flags.Group {
	return []flags.Group{
		{Title: "Size", Names: []string{"min", "max", "world-sizes", "process", "batch-size", "uneven-batch"}},
		{Title: "Where it runs", Names: []string{"workdir", "env", "env-file", "node", "exclude-node", "device-model", "prefer-model", "mix-models", "device-memory"}},
		{Title: "Limits", Names: []string{"memory-per-worker", "cpus-per-worker", "time-limit", "max-restarts", "no-new-privs"}},
		{Title: "Training", Names: []string{"steps", "progress", "micro-batch", "logical-workers", "lr-rule", "lr-warmup", "cold-start", "ready-fd"}},
		{Title: "Saving", Names: []string{"checkpoint-dir", "halt-timeout"}},
		{Title: "Order and deadline", Names: []string{"priority", "deadline", "grace", "or-best-effort", "accept-counter", "eta"}},
		{Title: "The job and its output", Names: []string{"name", "kind", "detach", "dry-run", "output", "help"}},
	}
}

// keys lists the keys of a job file.
func keys() []string {
	var list []string
	for _, f := range fields {
		list = append(list, f.key)
	}
	slices.Sort(list)
	return list
}

func fieldOfKey(key string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// fieldOf returns the field that an error of package cluster, or of a check here, is about.
func fieldOf(fault string) (found field, ok bool) {
	for _, f := range fields {
		begins := f.word != "" && (strings.HasPrefix(fault, f.word+" ") || strings.HasPrefix(fault, f.word+":"))
		if begins && len(f.word) > len(found.word) {
			found, ok = f, true
		}
	}
	return found, ok
}

// inWords returns a fault with each field called as its submitter calls it: --min where
// package cluster says min workers. Of fields of one word only the first word is replaced:
// they occur in prose, too.
func inWords(fault string, call func(field) string) string {
	if f, ok := fieldOf(fault); ok && !strings.Contains(f.word, " ") {
		return call(f) + fault[len(f.word):]
	}
	for _, f := range fields {
		if strings.Contains(f.word, " ") {
			fault = strings.ReplaceAll(fault, f.word, call(f))
		}
	}
	return fault
}
