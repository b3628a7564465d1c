package run

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// Environment is what the worker with this local rank gets: what suits most jobs, the
// node's network interface, what was submitted, then ours. torch reads the first half of that as
// torchrun would have set it. Dir is the run directory.
func (o Order) Environment(dir string, local int) map[string]string {
	env := interfaces(o)
	maps.Copy(env, o.EnvironmentAhead(dir))
	maps.Copy(env, planned(o, local))
	return env
}

// Listed is an environment as the kernel takes it: NAME=VALUE, sorted.
func Listed(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return list
}

// interfaces are those on which workers meet, where the job's owner names none.
func interfaces(o Order) map[string]string {
	env := map[string]string{}
	if o.Bound != "" {
		env["GLOO_SOCKET_IFNAME"] = o.Bound
	}
	if o.Interface != "" {
		// NCCL takes a bare name for the beginning of several; Gloo knows no sign for that.
		env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"] = "="+o.Interface, o.Interface
	}
	return env
}

// EnvironmentAhead is what is known before there is a plan: all of the environment of what runs ahead.
func (o Order) EnvironmentAhead(dir string) map[string]string {
	// Into a pipe, Python would keep its lines until there are 8 KiB of them, and lose
	// them when a signal ends it.
	env := map[string]string{"PYTHONUNBUFFERED": "1"}
	maps.Copy(env, o.Env)
	for name := range planned(Order{Node: o.Node, World: anyWorld(o.Node)}, 0) {
		delete(env, name)
	}
	maps.Copy(env, map[string]string{
		"TORCHELASTIC_RUN_ID": string(o.World.Job),
		"BELLOWS_JOB":         string(o.World.Job),
		"BELLOWS_NODE":        string(o.Node),
		"BELLOWS_GENERATION":  strconv.FormatUint(uint64(o.World.Generation), 10),
		SocketVariable:        filepath.Join(dir, WorkerSocket),
	})
	python := filepath.Join(dir, PythonDir)
	if rest := o.Env["PYTHONPATH"]; rest != "" {
		python += ":" + rest
	}
	env["PYTHONPATH"] = python
	return env
}

// anyWorld is one that the node is a member of.
func anyWorld(node cluster.NodeID) cluster.World {
	return cluster.World{Members: []cluster.Member{{Node: node, Devices: []cluster.DeviceID{"any"}}}}
}

// PlannedNames are the variables of a worker that only a plan tells, sorted.
func (o Order) PlannedNames() []string {
	of := Order{Node: o.Node, World: anyWorld(o.Node), Interface: "any"}
	names := slices.Sorted(maps.Keys(planned(of, 0)))
	for name := range interfaces(of) {
		if _, given := o.Env[name]; !given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// planned is what only a plan tells.
func planned(o Order, local int) map[string]string {
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
	env := map[string]string{
		"RANK":                       strconv.Itoa(member.FirstRank + local),
		"LOCAL_RANK":                 strconv.Itoa(local),
		"WORLD_SIZE":                 strconv.Itoa(o.World.Processes()),
		"LOCAL_WORLD_SIZE":           strconv.Itoa(member.Processes()),
		"GROUP_RANK":                 strconv.Itoa(group),
		"MASTER_ADDR":                o.World.Master.Host,
		"MASTER_PORT":                strconv.Itoa(o.World.Master.Port),
		"TORCHELASTIC_RESTART_COUNT": strconv.Itoa(o.RestartCount),
		"CUDA_VISIBLE_DEVICES":       all,
		"BELLOWS_BATCH_SIZE":         strconv.Itoa(o.World.BatchSize),
		"BELLOWS_CHECKPOINT_DIR":     o.Checkpoint,
		"BELLOWS_RESUME_FROM":        "",
		"BELLOWS_RESUME_STEP":        "0",
		"BELLOWS_RESUME_SAMPLES":     "0",
		"BELLOWS_DEVICE":             own,
		"BELLOWS_DEVICES":            strconv.Itoa(o.World.Size()),
		"BELLOWS_LOCAL_DEVICES":      strconv.Itoa(len(devices)),
	}
	maps.Copy(env, trainingVariables(o.Training))
	if r := o.Resume; r != nil {
		env["BELLOWS_RESUME_FROM"] = r.Dir
		env["BELLOWS_RESUME_STEP"] = strconv.FormatInt(r.Step, 10)
		env["BELLOWS_RESUME_SAMPLES"] = ""
		if r.Samples >= 0 { // else the number is unknown, and 0 would be wrong
			env["BELLOWS_RESUME_SAMPLES"] = strconv.FormatInt(r.Samples, 10)
		}
	}
	return env
}

// trainingVariables are the training's part of a worker's environment.
func trainingVariables(t Training) map[string]string {
	return map[string]string{
		"BELLOWS_BASE_BATCH_SIZE": strconv.Itoa(t.BaseBatch),
		"BELLOWS_MICRO_BATCH":     strconv.Itoa(t.MicroBatch),
		"BELLOWS_LOGICAL_WORKERS": strconv.Itoa(t.LogicalWorkers),
		"BELLOWS_LR_RULE":         t.LRRule,
		"BELLOWS_LR_WARMUP":       strconv.Itoa(t.LRWarmup),
	}
}
