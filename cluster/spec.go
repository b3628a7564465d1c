package cluster

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"
)

// Owner is whose job it is: the submitter, from the kernel (SO_PEERCRED), never from a request's body.
type Owner struct {
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	User string `json:"user"`
}

// BatchSize is how many samples one global step takes, over all workers. Max
// equals Min for a fixed size; a larger Max lets policies raise it with the world size.
type BatchSize struct {
	Min int `json:"min"`
	Max int `json:"max"`
	// Uneven: workers' shares of it may differ by one sample. Without, a world has a batch that
	// its workers share equally.
	Uneven bool `json:"uneven,omitempty"`
}

// Spec is what was submitted: immutable once the job is admitted.
type Spec struct {
	Name string `json:"name"`
	// Kind is what jobs of the same training have in common: what one of them shows of
	// its speed, the next of its owner's begins with. Empty = DefaultKind of its command.
	Kind    string            `json:"kind,omitempty"`
	Command []string          `json:"command"`
	Workdir string            `json:"workdir"` // absolute, the same path on every node
	Env     map[string]string `json:"env,omitempty"`
	// EnvFile holds more of the environment, such as passwords: a file that each node
	// reads as the owner when it starts workers, so that what is in it is never
	// recorded. Absolute, and on every node that may run the job; empty = none.
	EnvFile string `json:"env_file,omitempty"`
	// CheckpointDir is the base under which the job's generations save; absolute,
	// and on every node that may run the job.
	CheckpointDir string `json:"checkpoint_dir"`

	// PerNode: one worker on each node has all of the job's devices there, instead of
	// one for each device: for JAX, accelerate or a nested torchrun. The numbers of
	// workers below are numbers of devices all the same.
	PerNode bool `json:"per_node,omitempty"`

	MinWorkers int `json:"min_workers"`
	MaxWorkers int `json:"max_workers"`
	// Sizes are the world sizes that the script can run with, ascending, for models
	// that are cut into parts of 3 or 6 and the like; empty = the powers of two.
	Sizes     []int     `json:"world_sizes,omitempty"`
	BatchSize BatchSize `json:"batch_size"`
	// Training is what workers are told of how to make a step.
	Training Training `json:"training,omitzero"`
	// Progress is how the script's own lines say how far it is: a pattern as in
	// CompileProgress, or ProgressAuto; empty = they are not read.
	Progress string `json:"progress,omitempty"`

	Where Where `json:"where,omitzero"` // which nodes may run it
	// PerWorker bounds each worker's memory and processors.
	PerWorker Limits `json:"per_worker,omitzero"`
	// NoNewPrivs keeps the workers, and all that they start, from becoming another user
	// by setuid programs, such as sudo, for good.
	NoNewPrivs bool `json:"no_new_privs,omitempty"`

	Priority int        `json:"priority,omitempty"` // higher goes first, -100 … 100
	Deadline *time.Time `json:"deadline,omitempty"` // when its owner needs it
	// Grace is for how long after Deadline an end is of use still: the less, the later, and
	// none at its end. 0 = an end after the deadline is of none.
	Grace Duration `json:"grace,omitempty"`
	// OrBestEffort: the job is to run also where its deadline cannot be promised;
	// without, it is refused then.
	OrBestEffort bool `json:"or_best_effort,omitempty"`
	// Steps is how many optimiser steps the job takes in all; ETA is how long it
	// takes on one device, as its owner estimates. With Steps the work left follows from
	// the measured speed, and until that is known from ETA; 0 = unknown.
	Steps int64    `json:"steps,omitempty"`
	ETA   Duration `json:"eta,omitempty"`
	// TimeLimit is how long the job may be running, over all generations: it is
	// then halted with a save, and ends. 0 = as long as it takes.
	TimeLimit Duration `json:"time_limit,omitempty"`

	// ColdStart has all workers executed. Without, nodes prepare the next generation of a Python script
	// while the present one trains: what its workers are forked from waits there, with the
	// modules of an earlier world imported.
	ColdStart bool `json:"cold_start,omitempty"`
	// ReadyFD: the command waits before it opens a device where it is told a descriptor to wait at, and
	// is started in that way while the present generation trains.
	ReadyFD bool `json:"ready_fd,omitempty"`

	// MaxRestarts is how many failures of its workers the job may survive.
	// Rescales and lost nodes are not failures of the job and do not count.
	MaxRestarts int `json:"max_restarts"`
	// HaltTimeout is how long a halt waits for the script's save before SIGKILL.
	HaltTimeout Duration `json:"halt_timeout"`
}

// Defaults of a Spec, applied by Spec.WithDefaults.
const (
	DefaultMinWorkers  = 1
	DefaultMaxWorkers  = 8
	DefaultBatchSize   = 256
	DefaultMaxRestarts = 3
	DefaultHaltTimeout = Duration(2 * time.Minute)
)

// Bounds of a Spec's times. What is longer is a slip of the pen, and no sum of what is within them overflows.
const (
	year           = 365 * 24 * time.Hour
	MaxGrace       = Duration(year)
	MaxTime        = 10 * Duration(year)  // of any time that nothing bounds more tightly
	MaxETA         = 100 * Duration(year) // on one device: a job of a month has that on 1,200
	MaxHaltTimeout = Duration(24 * time.Hour)
)

// Shown is the spec as a user may see it, with the kind that its speed is remembered by. The environment, which may hold
// secrets, is shown to no one. Others than the owner and root see the program's name instead of the command, and
// nothing that is made of its arguments.
func (s Spec) Shown(own bool) Spec {
	s.Env = nil
	if own {
		s.Kind = s.KindName()
		return s
	}
	s.EnvFile = ""
	if len(s.Command) > 0 {
		s.Command = []string{path.Base(s.Command[0])}
	}
	return s
}

// WithDefaults fills in the fields that a submitter may leave out: the zero
// value stands for "not given" in each of them. Negative values are kept for
// Validate to refuse.
func (s Spec) WithDefaults() Spec {
	if n := len(s.Sizes); n > 0 {
		s.MinWorkers = cmp.Or(s.MinWorkers, s.Sizes[0])
		s.MaxWorkers = cmp.Or(s.MaxWorkers, s.Sizes[n-1])
	}
	if s.MinWorkers == 0 {
		s.MinWorkers = DefaultMinWorkers
	}
	if s.MaxWorkers == 0 {
		s.MaxWorkers = max(DefaultMaxWorkers, s.MinWorkers)
	}
	if s.BatchSize.Min == 0 && s.BatchSize.Max == 0 {
		s.BatchSize.Min = DefaultBatchSize
	}
	if s.BatchSize.Max == 0 {
		s.BatchSize.Max = s.BatchSize.Min
	}
	if s.HaltTimeout == 0 {
		s.HaltTimeout = DefaultHaltTimeout
	}
	return s
}

// Latest is when an end stops to be of use: the deadline, or the end of its grace; zero without a deadline.
func (s Spec) Latest() time.Time {
	if s.Deadline == nil {
		return time.Time{}
	}
	return s.Deadline.Add(time.Duration(s.Grace))
}

// WorldSizes returns the world sizes that the job may have, ascending: its Sizes,
// or else the powers of two that share its smallest batch, in [MinWorkers, MaxWorkers].
func (s Spec) WorldSizes() []int {
	if len(s.Sizes) > 0 {
		return slices.DeleteFunc(slices.Clone(s.Sizes), func(k int) bool {
			return k < s.MinWorkers || k > s.MaxWorkers || s.BatchSize.On(k) == 0
		})
	}
	var sizes []int
	for k := 1; k <= s.MaxWorkers && k <= MaxWorldSize; k *= 2 {
		if k >= s.MinWorkers && (s.BatchSize.Min%k == 0 || s.BatchSize.Shares(s.BatchSize.Min, k)) {
			sizes = append(sizes, k)
		}
	}
	return sizes
}

// LargestText says what the largest world is that the script could have on so
// many devices, whatever its bounds.
func (s Spec) LargestText(devices int) string {
	free := s
	free.MinWorkers, free.MaxWorkers = 1, devices
	sizes := free.WorldSizes()
	if len(sizes) == 0 {
		return "no world of it fits"
	}
	return fmt.Sprintf("the largest world that fits is of %d", sizes[len(sizes)-1])
}

// Shares reports whether k workers can share a batch: equally, or if it may be uneven, so that each has a sample.
func (b BatchSize) Shares(batch, k int) bool {
	return k >= 1 && batch >= k && (b.Uneven || batch%k == 0)
}

// On returns the smallest batch in the range that k workers can share, 0 if there is none.
func (b BatchSize) On(k int) int {
	if k < 1 || b.Min < 1 {
		return 0
	}
	if b.Uneven {
		if least := max(b.Min, k); least <= b.Max {
			return least
		}
		return 0
	}
	if up := (b.Min-1)/k*k + k; up <= b.Max {
		return up
	}
	return 0
}

// BaseSteps is what so many steps are worth in steps at the smallest batch, as their job
// tells: no fewer than they are, and no more than their samples could be.
func (b BatchSize) BaseSteps(steps int64, told float64) int64 {
	if b.Min < 1 {
		return steps
	}
	most := float64(steps) * (float64(b.Max) / float64(b.Min))
	if worth := min(told, most); worth > float64(steps) { // NaN is not
		return int64(min(worth, MaxSteps))
	}
	return steps
}

// MaxWorldSize is the largest world that Bellows forms; a bound, so that sizes stay sane everywhere.
const MaxWorldSize = 1 << 16
