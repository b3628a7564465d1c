package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds of a Spec. They keep a record well below etcd's request limit, and what a
// coordinator holds of one in memory not much above its bytes.
const (
	MaxSpecBytes    = 512 << 10 // as JSON, a third of what etcd takes at once
	MaxCommandBytes = 128 << 10 // the kernel's own limit for one argument
	MaxCommandWords = 16 << 10
	MaxEnvBytes     = 256 << 10
	MaxEnvNames     = 4 << 10
	MaxPathBytes    = 4 << 10 // the kernel's own limit for a path
	MaxModelBytes   = 256     // of a device
	MaxPriority     = 100
	MaxSizes        = 256 // listed world sizes
	MaxBatchSize    = 1<<31 - 1
	MaxRestarts     = 1<<31 - 1
	MaxSteps        = 1 << 53 // every reader of JSON knows whole numbers up to it exactly, and floats too
)

// quoted is how much of what is wrong an error repeats.
const quoted = 80

// Validate reports everything that is wrong with the spec at once (errors.Join);
// each fault names the field, the value and what would be right. Call it after WithDefaults.
func (s Spec) Validate() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if err := CheckName(s.Name); err != nil {
		faults = append(faults, err)
	}
	if s.Kind != "" {
		if err := CheckKind(s.Kind); err != nil {
			faults = append(faults, err)
		}
	}
	s.validateCommand(add)
	s.Where.validate(add)
	s.PerWorker.validate(add)
	s.validateNumbers(add)
	s.validateTraining(add)
	s.validateProgress(add)
	s.validateTotal(add)
	return errors.Join(faults...)
}

// CheckNumbers reports what is wrong with the numbers that decisions are made
// from: a record that was written by hand may hold any.
func (s Spec) CheckNumbers() error {
	var faults []error
	s.validateNumbers(func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) })
	return errors.Join(faults...)
}

func (s Spec) validateNumbers(add func(string, ...any)) {
	s.validateSizes(add)
	if s.Priority < -MaxPriority || s.Priority > MaxPriority {
		add("priority %d: use -%d to %d", s.Priority, MaxPriority, MaxPriority)
	}
	if s.Steps < 0 || s.Steps > MaxSteps {
		add("steps %d: use 1 to %d, or leave it out if it is not known", s.Steps, int64(MaxSteps))
	}
	if s.ETA < 0 || s.ETA > MaxETA {
		add("eta %s: use a time above zero such as 3h, at most %s, or leave it out if it is not known", s.ETA, MaxETA)
	}
	if s.OrBestEffort && s.Deadline == nil {
		add("or best effort: the job has no deadline to do without: give it one, or leave this out")
	}
	switch {
	case s.Grace < 0 || s.Grace > MaxGrace:
		add("grace %s: use a time above zero such as 2h, at most %s, or leave it out if the deadline is all that counts", s.Grace, MaxGrace)
	case s.Grace > 0 && s.Deadline == nil:
		add("grace %s: the job has no deadline that it could follow: give it one, or leave this out", s.Grace)
	}
	if s.TimeLimit < 0 || s.TimeLimit > MaxTime {
		add("time limit %s: use a time above zero such as 12h, at most %s, or leave it out if there is none", s.TimeLimit, MaxTime)
	}
	if s.ReadyFD && s.ColdStart {
		add("ready fd: nothing waits where all starts are cold: leave one of the two out")
	}
	if s.MaxRestarts < 0 || s.MaxRestarts > MaxRestarts {
		add("max restarts %d: use 0 (never restart) to %d", s.MaxRestarts, MaxRestarts)
	}
	if s.HaltTimeout < 0 || s.HaltTimeout > MaxHaltTimeout {
		add("halt timeout %s: use a positive duration such as 2m, at most %s", s.HaltTimeout, MaxHaltTimeout)
	}
}

// validateTotal bounds what the fields come to together, as it is recorded: JSON
// writes some bytes as six.
func (s Spec) validateTotal(add func(string, ...any)) {
	text, err := json.Marshal(s)
	_, notANumber := errors.AsType[*json.UnsupportedValueError](err)
	switch {
	case notANumber: // NaN or infinity, which the check of its field refuses
	case err != nil:
		add("spec: %w", err)
	case len(text) > MaxSpecBytes:
		add("spec has %d bytes as JSON, at most %d: shorten the command or the environment, or put them into files", len(text), MaxSpecBytes)
	}
}

func (s Spec) validateCommand(add func(string, ...any)) {
	switch {
	case len(s.Command) == 0 || s.Command[0] == "":
		add("command is empty: give the program to run, as in: bellows run -- python train.py")
	case bytesOf(s.Command...) > MaxCommandBytes:
		add("command has %d bytes: at most %d", bytesOf(s.Command...), MaxCommandBytes)
	case len(s.Command) > MaxCommandWords:
		add("command has %d words: at most %d; put them into a file", len(s.Command), MaxCommandWords)
	case slices.ContainsFunc(s.Command, hasNUL):
		add("command holds a NUL byte: no argument of a program can")
	}
	for _, f := range []struct{ field, value string }{{"workdir", s.Workdir}, {"checkpoint dir", s.CheckpointDir}, {"env file", s.EnvFile}} {
		switch {
		case f.field == "env file" && f.value == "":
		case len(f.value) > MaxPathBytes:
			add("%s %.*q… has %d bytes: at most %d", f.field, quoted, f.value, len(f.value), MaxPathBytes)
		case !path.IsAbs(f.value) || path.Clean(f.value) != f.value || hasNUL(f.value):
			add("%s %q: use a clean absolute path that every node has", f.field, f.value)
		}
	}
	s.validateEnv(add)
}

func (s Spec) validateEnv(add func(string, ...any)) {
	size := 0
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		v := s.Env[k]
		size += bytesOf(k, v)
		if k == "" || strings.ContainsAny(k, "=\x00") || hasNUL(v) {
			add("env %.*q: a name must be non-empty and without '=', and neither part may hold a NUL byte", quoted, k)
		}
		if why := reservedName(k); why != "" {
			add("env %.*s: %s", quoted, k, why)
		}
	}
	if size > MaxEnvBytes {
		add("env has %d bytes: at most %d", size, MaxEnvBytes)
	}
	if len(s.Env) > MaxEnvNames {
		add("env has %d names: at most %d", len(s.Env), MaxEnvNames)
	}
}

// reservedName says why a job cannot have a variable of this name: each worker gets
// its own, which would take the place of the job's. Empty if it can.
func reservedName(name string) string {
	switch name {
	case "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
		"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "CUDA_VISIBLE_DEVICES":
		return "Bellows sets it for each worker, so this value would be lost; leave it out"
	}
	if strings.HasPrefix(name, "BELLOWS_") {
		return "names that begin with BELLOWS_ are set by Bellows; choose another"
	}
	return ""
}

func (s Spec) validateSizes(add func(string, ...any)) {
	ok := true
	check := func(bad bool, format string, args ...any) {
		if bad {
			ok = false
			add(format, args...)
		}
	}
	check(s.MinWorkers < 1 || s.MinWorkers > MaxWorldSize, "min workers %d: use 1 to %d", s.MinWorkers, MaxWorldSize)
	check(s.MaxWorkers < 1 || s.MaxWorkers > MaxWorldSize, "max workers %d: use 1 to %d", s.MaxWorkers, MaxWorldSize)
	check(s.BatchSize.Min < 1 || s.BatchSize.Min > MaxBatchSize, "batch size %d: use 1 to %d", s.BatchSize.Min, MaxBatchSize)
	check(s.BatchSize.Max > MaxBatchSize && s.BatchSize.Max > s.BatchSize.Min, "batch size %d:%d: use %d at most", s.BatchSize.Min, s.BatchSize.Max, MaxBatchSize)
	if !ok {
		return
	}
	check(s.MinWorkers > s.MaxWorkers, "min workers %d is above max workers %d: swap them, or raise the maximum", s.MinWorkers, s.MaxWorkers)
	check(s.BatchSize.Max < s.BatchSize.Min, "batch size %d:%d: the largest is below the smallest; write smallest:largest", s.BatchSize.Min, s.BatchSize.Max)
	if !ok {
		return
	}
	if len(s.Sizes) > 0 {
		s.validateList(add)
	} else if powersOfTwo := (Spec{MinWorkers: s.MinWorkers, MaxWorkers: s.MaxWorkers}).WorldSizes(); len(powersOfTwo) == 0 {
		add("min workers %d, max workers %d: no power of two lies between them; worlds have 1, 2, 4, 8, … workers", s.MinWorkers, s.MaxWorkers)
	} else if len(s.WorldSizes()) == 0 && s.BatchSize.Max > s.BatchSize.Min {
		add("batch size %d:%d: no number in it is a multiple of any of the allowed worker counts %s: widen it%s", s.BatchSize.Min, s.BatchSize.Max, list(powersOfTwo), s.orUneven(powersOfTwo[0]))
	} else if len(s.WorldSizes()) == 0 {
		add("batch size %d is divided by none of the allowed worker counts %s: use a multiple of %d%s", s.BatchSize.Min, list(powersOfTwo), powersOfTwo[0], s.orUneven(powersOfTwo[0]))
	}
}

// validateList checks explicit world sizes, each against the other bounds.
func (s Spec) validateList(add func(string, ...any)) {
	const field = "world sizes %s: "
	if len(s.Sizes) > MaxSizes {
		add("world sizes: %d are listed, at most %d: leave out those that differ little", len(s.Sizes), MaxSizes)
		return
	}
	for i, k := range s.Sizes {
		switch {
		case k < 1 || k > MaxWorldSize:
			add(field+"%d: use 1 to %d", list(s.Sizes), k, MaxWorldSize)
			return
		case i > 0 && k <= s.Sizes[i-1]:
			add(field+"write each once, the smaller first", list(s.Sizes))
			return
		}
	}
	for _, k := range s.Sizes {
		switch {
		case k < s.MinWorkers || k > s.MaxWorkers:
			add(field+"%d is not between min workers %d and max workers %d: leave those two out", list(s.Sizes), k, s.MinWorkers, s.MaxWorkers)
		case s.BatchSize.On(k) == 0 && s.BatchSize.Min == s.BatchSize.Max:
			add("batch size %d: %d workers (world sizes %s) cannot share it equally: use a multiple, or a range such as %d:%d%s",
				s.BatchSize.Min, k, list(s.Sizes), s.BatchSize.Min, s.BatchSize.Min+k-1, s.orUneven(k))
		case s.BatchSize.On(k) == 0:
			add("batch size %d:%d: no number in it is a multiple of %d (world sizes %s): widen it%s", s.BatchSize.Min, s.BatchSize.Max, k, list(s.Sizes), s.orUneven(k))
		}
	}
}

// orUneven adds to an error that shares which differ by one sample would do, where k workers have one each.
func (s Spec) orUneven(k int) string {
	if s.BatchSize.Uneven || s.BatchSize.Max < k {
		return ""
	}
	return ", or allow uneven shares (uneven batch), which the script has to weigh"
}

// list writes values as flags take them.
func list[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ",")
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

func bytesOf(parts ...string) int {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	return n
}
