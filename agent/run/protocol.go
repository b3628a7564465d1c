package run

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// ProtocolVersion is the version of Order, Wish and Report. A shim keeps
// speaking the version it was born with; agents must understand older ones.
const ProtocolVersion = 1

// The kinds of containment, strongest first.
const (
	Cgroup2 = "cgroup2" // a cgroup v2, killed at one stroke
	Cgroup1 = "cgroup1" // a cgroup of the v1 freezer: frozen, killed, thawed
	Weak    = "weak"    // the shim as subreaper
)

// The files of a run directory that workers use, and the variable of a worker's environment
// that names the first of them. That marks a process as one of a certain run, wherever it has
// got to: the run directory is unique.
const (
	WorkerSocket   = "worker.sock" // shim and SDK
	PythonDir      = "python"      // is in the workers' PYTHONPATH
	SocketVariable = "BELLOWS_WORKER_SOCKET"
)

// Order is all that a shim needs to know. The agent writes it to the run
// directory, durable, before it starts the shim.
type Order struct {
	// Spec is what was submitted. Its fields stand beside the others in JSON; where an order has a field of the same
	// name, as checkpoint_dir or training, that is the one of this generation. Shims of earlier versions know of it: command,
	// workdir, env, env_file, progress, steps and no_new_privs.
	cluster.Spec

	Version int            `json:"version"`
	Cluster string         `json:"cluster"`
	Node    cluster.NodeID `json:"node"`
	World   cluster.World  `json:"world"`
	Owner   cluster.Owner  `json:"owner"` // whom the workers run as

	Checkpoint   string             `json:"checkpoint_dir"` // of this generation
	Resume       *record.Checkpoint `json:"resume,omitempty"`
	RestartCount int                `json:"restart_count"` // torch's TORCHELASTIC_RESTART_COUNT
	LogDir       string             `json:"log_dir"`       // rank-<r>.log are written here
	LogMaxBytes  int64              `json:"log_max_bytes"` // per rank, over its files
	LockDir      string             `json:"lock_dir"`      // one lock file per device of the machine
	// Containment is the kind that holds the workers: Cgroup2, Cgroup1 or Weak;
	// empty = the strongest that this node allows.
	Containment string `json:"containment,omitempty"`
	// Limits of each worker; a node that cannot keep them refuses. They are Spec.PerWorker, under the name by which
	// shims of earlier versions know them.
	Limits cluster.Limits `json:"limits,omitzero"`
	// Training is what workers find of it in their environment.
	Training Training `json:"training,omitzero"`
	// DeviceFiles are those of the node's devices; nil = they have none.
	DeviceFiles *DeviceFiles `json:"device_files,omitempty"`
	// Processes bounds the processes and threads of all workers of the node, for each
	// of their devices; 0 = nothing does. It is kept where the node can.
	Processes int `json:"processes,omitempty"`
	// Interface is the network interface that was named for workers to meet on;
	// empty = none was.
	Interface string `json:"interface,omitempty"`
	// Bound is then the one with this node's address, which Gloo is told: by itself it
	// takes the address of the host's name, which in Debian's /etc/hosts is 127.0.1.1.
	// Empty = theirs to find. NCCL finds one by itself.
	Bound string `json:"bound,omitempty"`
	// Scope: the shim is started in a transient scope of systemd's, apart from the
	// service that its agent is.
	Scope bool `json:"scope,omitempty"`
	// Strict: the workers are killed at the fencing deadline, and none is executed
	// before a deadline is known. Agents order it always: the deadline itself says whether the
	// node fences, as a cluster may grow beyond one node while the job runs.
	Strict bool `json:"strict"`
	// Deadline is the fencing deadline as known when the order was written, as in
	// Wish; 0 = wait for the first Wish that names one. Used only if Strict.
	Deadline int64 `json:"deadline,omitempty"`
	// Prepare has the shim park the workers' processes, if the command allows that, and wait for
	// Wish.Start before it uses anything of the plan. Until Bind, World names Job,
	// Generation and Nonce only, and what else a plan decides is empty; nil = start at once.
	Prepare *Prepare `json:"prepare,omitempty"`
	// LearnedFile is where the shim keeps what it has learned of the job's starts, from one generation to the
	// next; empty = nowhere.
	LearnedFile string `json:"learned_file,omitempty"`
}

// Prepare is how a run is prepared.
type Prepare struct {
	// Workers is how many processes are started and parked; 0 = one.
	Workers int `json:"workers,omitempty"`
	// Waits: the command itself is started, and waits at a descriptor until it is released.
	Waits  bool  `json:"waits,omitempty"`
	Memory int64 `json:"memory,omitempty"` // bytes that the parked processes may have together before they are given up; 0 = no bound of their own
}

// Planned reports whether the order has a plan.
func (o Order) Planned() bool { return o.Prepare == nil || len(o.World.Members) > 0 }

// Warms reports whether the job has warm starts, if it can: its owner has not asked for cold ones.
func (o Order) Warms() bool { return o.Prepare != nil || o.LearnedFile != "" }

// MemoryAhead is how much memory what runs ahead may have, in bytes; 0 = any. See contain.Ahead.
func (o Order) MemoryAhead() uint64 {
	most := uint64(0)
	if o.Prepare != nil && o.Prepare.Memory > 0 {
		most = uint64(o.Prepare.Memory)
	}
	if limit := o.Limits.MemoryBytes; limit > 0 && (most == 0 || limit < most) {
		most = limit
	}
	return most
}

// Waits reports whether the run's command waits to be released by itself.
func (o Order) Waits() bool { return o.Prepare != nil && o.Prepare.Waits }

// DeviceFiles are the files of a node's devices, by the kernel's numbers. Those that
// a run was not granted are kept from its workers, also those of devices that are
// added later; all other files, also those that all devices share, are left to them.
type DeviceFiles struct {
	Major uint32 `json:"major"`
	// Last is the highest minor number that is a device's; those above are shared.
	Last    uint32   `json:"last"`
	Granted []uint32 `json:"granted"` // minor numbers
	// Unknown says why it is not known which file is whose; empty if it is.
	Unknown string `json:"unknown,omitempty"`
}

// Training is how the script shall make a step: cluster.Training, with what follows where its
// owner gave nothing. The zero value is of an agent that did not know of it.
type Training struct {
	BaseBatch      int    `json:"base_batch,omitempty"` // the smallest that the job may have, for which its learning rate is
	MicroBatch     int    `json:"micro_batch,omitempty"`
	LogicalWorkers int    `json:"logical_workers,omitempty"`
	LRRule         string `json:"lr_rule,omitempty"`
	LRWarmup       int    `json:"lr_warmup,omitempty"`
}

// Wish is what the agent wants of the shim, all of it, each time.
type Wish struct {
	// Deadline is when the workers die unless a later Wish moves it, in
	// nanoseconds of CLOCK_BOOTTIME; 0 = not known: the one known before stays in
	// force. fence.Never lifts it. Ignored unless Order.Strict.
	Deadline int64 `json:"deadline"`
	// Halt is the leader's request to save and stop, as recorded; nil = run on.
	// Like Kill it cannot be taken back: a later Wish without it changes nothing.
	Halt *record.Halt `json:"halt,omitempty"`
	// Kill ends the workers now: the permit is gone, or a peer has failed. Why goes to the log.
	Kill string `json:"kill,omitempty"`
	// Start has a prepared run carry out the order that Bind has put into its directory.
	// It cannot be taken back.
	Start bool `json:"start,omitempty"`
	// Workers is how many processes a prepared run should have parked; 0 = as many as its order says.
	// It never takes one away.
	Workers int `json:"workers,omitempty"`
	// Retire lets the shim exit once no worker is left: all it knew has been recorded. It
	// ends a prepared run that was not told to start.
	Retire bool `json:"retire,omitempty"`
}

// Equal reports whether two wishes ask for the same.
func (w Wish) Equal(v Wish) bool {
	if w.Deadline != v.Deadline || w.Kill != v.Kill || w.Retire != v.Retire || w.Workers != v.Workers || w.Start != v.Start || (w.Halt == nil) != (v.Halt == nil) {
		return false
	}
	if w.Halt == nil {
		return true
	}
	a, b := *w.Halt, *v.Halt
	if a.Terminate != b.Terminate || (a.StopAfter == nil) != (b.StopAfter == nil) || a.StopAfter != nil && *a.StopAfter != *b.StopAfter {
		return false
	}
	return a.Why.Equal(b.Why) && a.Save == b.Save && a.Deadline.Equal(b.Deadline)
}

// String writes the wish in one line, for logs and stories.
func (w Wish) String() string {
	s := fmt.Sprintf("deadline=%d", w.Deadline)
	if h := w.Halt; h != nil {
		s += fmt.Sprintf(" halt(save=%t", h.Save)
		if h.StopAfter != nil {
			s += fmt.Sprintf(" stop_after=%d", *h.StopAfter)
		}
		if h.Terminate {
			s += " terminate"
		}
		s += ")"
	}
	if w.Kill != "" {
		s += fmt.Sprintf(" kill=%q", w.Kill)
	}
	if w.Start {
		s += " start"
	}
	if w.Workers > 0 {
		s += fmt.Sprintf(" workers=%d", w.Workers)
	}
	if w.Retire {
		s += " retire"
	}
	return s
}

// Prolongs reports whether a wish moves the deadline that the agent itself keeps
// for a run, planned for a life of this node: the lease of another life prolongs nothing.
func (w Wish) Prolongs(planned, life int64) bool {
	return w.Deadline == fence.Never || w.Deadline != 0 && planned == life
}

// Report is everything the shim knows, each time something of it changes.
type Report struct {
	Version     int             `json:"version"`
	Shim        Process         `json:"shim"`
	Workers     []record.Worker `json:"workers,omitempty"` // set once all are executed
	ExecedAt    time.Time       `json:"execed_at,omitzero"`
	Containment string          `json:"containment"` // cgroup2 | cgroup1 | weak
	// DeviceFiles says how the workers are kept from devices that are not theirs:
	// DeviceFilter, DeviceController, or why they are not; empty = from none.
	DeviceFiles string `json:"device_files,omitempty"`
	Processes   int    `json:"processes,omitempty"` // how many the workers may have together; 0 = any number
	// Deadline is the fencing deadline in force, by the order or the last Wish that
	// named one: that it has arrived, and not only been sent. 0 = none, or the shim
	// is of a version that does not say.
	Deadline int64               `json:"deadline,omitempty"`
	Waiting  string              `json:"waiting,omitempty"` // what keeps the workers from being executed yet, in words
	Held     *record.Held        `json:"held,omitempty"`    // the answer to Wish.Halt
	Failed   *record.Failed      `json:"failed,omitempty"`  // the first failure, with the log's tail
	Saves    []Save              `json:"saves,omitempty"`   // of the newest few steps, ascending by step, then rank
	Progress *record.JobProgress `json:"progress,omitempty"`
	// ProgressProblem is what is wrong with the lines that are read for Progress.
	ProgressProblem string `json:"progress_problem,omitempty"`
	// Stopped is set once no process is left in the containment and all device locks are free, or were cleared away. SavedAt is not the shim's to set.
	Stopped *record.Stopped `json:"stopped,omitempty"`
	// Leftover names what the workers had left behind when they ended; it was killed.
	Leftover []string `json:"leftover,omitempty"`
	// Unkillable processes have survived SIGKILL for UnkillableAfter: there is no
	// Stopped while they live, and their devices must not be given away.
	Unkillable []int `json:"unkillable,omitempty"`
	// KillPending: the unkillable are all that is left, and SIGKILL is pending for each of
	// their threads. They never run code of their own again, whatever the kernel does
	// for them yet; they still have their devices.
	KillPending bool `json:"doomed,omitempty"`
	// Prepared is how far a prepared run has come, from the moment when that is known; it
	// stays when the workers are started.
	Prepared *Prepared `json:"prepared,omitempty"`
	Warm     bool      `json:"warm,omitempty"` // the workers had been parked
	// Unforkable says why no process of the order's command can run ahead; empty = one can, or was not asked for.
	Unforkable string `json:"unforkable,omitempty"`
}

// Prepared is what a prepared run has for its workers. Neither Ready nor Cold: processes
// still run ahead.
type Prepared struct {
	Ready  bool   `json:"ready,omitempty"`  // processes are parked
	Cold   string `json:"cold,omitempty"`   // why workers are executed as without a preparation; empty = they are not
	Memory int64  `json:"memory,omitempty"` // bytes that the parked processes have together
	// Workers is how many processes are parked, and Parked where in the script the first of them waits, and why there.
	Workers int    `json:"workers,omitempty"`
	Parked  string `json:"parked,omitempty"`
}

// Settled reports whether the preparation is over: either a process is parked for each of these workers, or the start
// will be cold. A shim of an earlier version reports no number: its launcher can fork any number of workers.
func (p Prepared) Settled(workers int) bool {
	return p.Cold != "" || p.Ready && (p.Workers == 0 || p.Workers >= workers)
}

// Save is one rank's word, by the SDK, that its files of a step are written (not yet fsynced).
type Save struct {
	Step    int64  `json:"step"`
	Rank    int    `json:"rank"`
	Samples int64  `json:"samples"`
	Dir     string `json:"dir"` // the checkpoint's directory, absolute; the rank's files lie in Dir/rank-<%05d rank>/
}

// Process names a process for good: pids are reused, this triple is not.
type Process struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // field 22 of /proc/<pid>/stat, in clock ticks since boot
	BootID    string `json:"boot_id"`
}
