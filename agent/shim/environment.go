package shim

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// socketVariable names the worker's socket, which is also what marks a process as
// one of a certain run, wherever it has got to: the run directory is unique.
const socketVariable = "BELLOWS_WORKER_SOCKET"

// environment is what the worker with this local rank gets: what suits most jobs, the
// node's network interface, what was submitted, then ours. torch reads the first half of that as
// torchrun would have set it.
func environment(o Order, dir string, local int) []string {
	member, group, _ := o.World.Member(o.Node)
	devices := make([]string, len(member.Devices))
	for i, d := range member.Devices {
		devices[i] = string(d)
	}
	all := strings.Join(devices, ",")
	own := all
	if !member.OneProcess {
		own = devices[local]
	}
	// Into a pipe, Python would keep its lines until there are 8 KiB of them, and lose
	// them when a signal ends it.
	env := map[string]string{"PYTHONUNBUFFERED": "1"}
	if o.Bound != "" {
		env["GLOO_SOCKET_IFNAME"] = o.Bound
	}
	if o.Interface != "" {
		// NCCL takes a bare name for the beginning of several; Gloo knows no sign for that.
		env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"] = "="+o.Interface, o.Interface
	}
	maps.Copy(env, o.Env)
	maps.Copy(env, map[string]string{
		"RANK":                       strconv.Itoa(member.FirstRank + local),
		"LOCAL_RANK":                 strconv.Itoa(local),
		"WORLD_SIZE":                 strconv.Itoa(o.World.Processes()),
		"LOCAL_WORLD_SIZE":           strconv.Itoa(member.Processes()),
		"GROUP_RANK":                 strconv.Itoa(group),
		"MASTER_ADDR":                o.World.Master.Host,
		"MASTER_PORT":                strconv.Itoa(o.World.Master.Port),
		"TORCHELASTIC_RUN_ID":        string(o.World.Job),
		"TORCHELASTIC_RESTART_COUNT": strconv.Itoa(o.RestartCount),
		"CUDA_VISIBLE_DEVICES":       all,
		"BELLOWS_JOB":                string(o.World.Job),
		"BELLOWS_NODE":               string(o.Node),
		"BELLOWS_GENERATION":         strconv.FormatUint(uint64(o.World.Generation), 10),
		"BELLOWS_BATCH_SIZE":         strconv.Itoa(o.World.BatchSize),
		"BELLOWS_CHECKPOINT_DIR":     o.Checkpoint,
		"BELLOWS_RESUME_FROM":        "",
		"BELLOWS_RESUME_STEP":        "0",
		"BELLOWS_RESUME_SAMPLES":     "0",
		socketVariable:               filepath.Join(dir, workerSocket),
		"BELLOWS_DEVICE":             own,
		"BELLOWS_DEVICES":            strconv.Itoa(o.World.Size()),
		"BELLOWS_LOCAL_DEVICES":      strconv.Itoa(len(devices)),
	})
	maps.Copy(env, o.Training.variables())
	if r := o.Resume; r != nil {
		env["BELLOWS_RESUME_FROM"] = r.Dir
		env["BELLOWS_RESUME_STEP"] = strconv.FormatInt(r.Step, 10)
		env["BELLOWS_RESUME_SAMPLES"] = ""
		if r.Samples >= 0 { // else the number is unknown, and 0 would be wrong
			env["BELLOWS_RESUME_SAMPLES"] = strconv.FormatInt(r.Samples, 10)
		}
	}
	python := filepath.Join(dir, pythonDir)
	if rest := o.Env["PYTHONPATH"]; rest != "" {
		python += ":" + rest
	}
	env["PYTHONPATH"] = python
	list := make([]string, 0, len(env))
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return list
}

// variables are the training's part of a worker's environment.
func (t Training) variables() map[string]string {
	return map[string]string{
		"BELLOWS_BASE_BATCH_SIZE": strconv.Itoa(t.BaseBatch),
		"BELLOWS_MICRO_BATCH":     strconv.Itoa(t.MicroBatch),
		"BELLOWS_LOGICAL_WORKERS": strconv.Itoa(t.LogicalWorkers),
		"BELLOWS_LR_RULE":         t.LRRule,
		"BELLOWS_LR_WARMUP":       strconv.Itoa(t.LRWarmup),
	}
}
