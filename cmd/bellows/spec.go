package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// checkpointFolder is where a job saves unless it is told where.
const checkpointFolder = "checkpoints"

// batchSize reads 256 or 256:1024.
func batchSize(text string) (cluster.BatchSize, error) {
	low, high, both := strings.Cut(text, ":")
	smallest, err := strconv.Atoi(low)
	largest := smallest
	if err == nil && both {
		largest, err = strconv.Atoi(high)
	}
	if err != nil || smallest < 1 || largest < 1 {
		return cluster.BatchSize{}, fmt.Errorf("%q: use a number of samples from 1, as in 256, or smallest:largest, as in 256:1024", text)
	}
	return cluster.BatchSize{Min: smallest, Max: largest}, nil
}

// What --process can be.
const (
	perDevice  = "per-device"
	onePerNode = "per-node"
)

func perNode(text string) (bool, error) {
	if text != perDevice && text != onePerNode {
		return false, fmt.Errorf("%q: use %s or %s", text, perDevice, onePerNode)
	}
	return text == onePerNode, nil
}

// complete fills in what a spec takes from where it is submitted, and makes its
// paths absolute; relative ones are taken from base.
func complete(spec cluster.Spec, base string) (cluster.Spec, error) {
	if !filepath.IsAbs(base) {
		return spec, fmt.Errorf("base folder %q is not absolute", base)
	}
	spec.Workdir = under(base, spec.Workdir)
	if spec.CheckpointDir == "" {
		spec.CheckpointDir = checkpointFolder
		spec.CheckpointDir = under(spec.Workdir, spec.CheckpointDir)
	} else {
		spec.CheckpointDir = under(base, spec.CheckpointDir)
	}
	if spec.EnvFile != "" {
		spec.EnvFile = under(base, spec.EnvFile)
	}
	if spec.Name == "" {
		spec.Name = defaultName(spec.Command)
	}
	return spec.WithDefaults(), nil
}

func under(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// defaultName names a job for its script, or else for its program.
func defaultName(command []string) string {
	if len(command) == 0 {
		return "job"
	}
	name := command[0]
	if script, module := scriptOf(command); module != "" {
		name = module[strings.LastIndexByte(module, '.')+1:]
	} else if script != "" {
		name = script
	}
	name = filepath.Base(name)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && cluster.CheckName("a"+string(r)+"a") == nil {
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), cluster.MaxNameBytes)], "-")
	if cluster.CheckName(name) != nil {
		return "job"
	}
	return name
}

// field is one field of a spec: how cluster's faults call it, and how people set it.
type field struct{ word, flag, key string }

var fields = []field{
	{"min workers", "--min", "min"},
	{"max workers", "--max", "max"},
	{"world sizes", "--world-sizes", "world-sizes"},
	{"batch size", "--batch-size", "batch-size"},
	{"checkpoint dir", "--checkpoint-dir", "checkpoint-dir"},
	{"max restarts", "--max-restarts", "max-restarts"},
	{"halt timeout", "--halt-timeout", "halt-timeout"},
	{"workdir", "--workdir", "workdir"},
	{"name", "--name", "name"},
	{"node", "--node", "node"},
	{"exclude node", "--exclude-node", "exclude-node"},
	{"env file", "--env-file", "env-file"},
	{"env", "--env", "env"},
	{"priority", "--priority", "priority"},
	{"deadline", "--deadline", "deadline"},
	{"steps", "--steps", "steps"},
	{"eta", "--eta", "eta"},
	{"time limit", "--time-limit", "time-limit"},
	{"memory per worker", "--memory-per-worker", "memory-per-worker"},
	{"cpus per worker", "--cpus-per-worker", "cpus-per-worker"},
	{"command", "command", "command"},
}

// fieldOf returns the field that a fault is about: faults begin with its word.
func fieldOf(fault string) (field, bool) {
	for _, f := range fields {
		if strings.HasPrefix(fault, f.word+" ") || strings.HasPrefix(fault, f.word+":") {
			return f, true
		}
	}
	return field{}, false
}

// inWords says a fault with each field called as call says: --min where cluster
// says min workers. Only the first word is replaced for fields of one word,
// which also occur in prose.
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

// flagFaults says everything that is wrong in the words of the flags.
func flagFaults(err error) error {
	var all []error
	for _, e := range fault.Each(err) {
		all = append(all, errors.New(inWords(e.Error(), func(f field) string { return f.flag })))
	}
	if len(all) == 0 {
		return nil
	}
	return fault.AsUsage(errors.Join(all...))
}

// prepare checks what can be checked here before a job is submitted, as the
// user who submits: the nodes check again before they start it. Of a job that is
// refused, here or already before, no folder is left.
func prepare(spec cluster.Spec, refused bool) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	info, err := os.Stat(spec.Workdir)
	if err != nil {
		return fmt.Errorf("workdir %s: %w", spec.Workdir, fault.Reason(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("workdir %s: it is a file, use a folder", spec.Workdir)
	}
	missing := missingFolders(spec.CheckpointDir)
	err = errors.Join(checkCommand(spec), checkEnvFile(spec), prepareCheckpointDir(spec.CheckpointDir))
	if refused || err != nil {
		for _, dir := range missing {
			_ = os.Remove(dir) // in vain if it was not made, or if somebody uses it by now
		}
	}
	return err
}

// missingFolders lists a folder that does not exist and its parents that do not, innermost first.
func missingFolders(dir string) (missing []string) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// checkEnvFile reads the file as each node will.
func checkEnvFile(spec cluster.Spec) error {
	if spec.EnvFile == "" {
		return nil
	}
	_, err := shim.ReadEnvFile(spec.EnvFile, uint32(os.Getuid())) //nolint:gosec // a uid is not negative
	return err
}
