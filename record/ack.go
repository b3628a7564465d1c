package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Ack names an acknowledgement of a generation. Each is created once per node:
//
//	started ──► held (a halt has reached the SDK's ranks) ──► stopped
//	       └──► failed (a worker or this node could not go on) ──► stopped ──► cleared (what it failed of is over)
//
// failed may come without started (the node refused), stopped without either.
type Ack string

// The acknowledgements.
const (
	AckStarted Ack = "started"
	AckHeld    Ack = "held"
	AckFailed  Ack = "failed"
	AckStopped Ack = "stopped"
	AckCleared Ack = "cleared"
)

// Started says that every worker of the node was executed.
type Started struct {
	Workers     []Worker  `json:"workers"`
	ExecedAt    time.Time `json:"execed_at"`   // the first exec
	Containment string    `json:"containment"` // cgroup2 | cgroup1 | weak
	// Processes is how many processes and threads the node's workers may have together; 0 = any number.
	Processes int `json:"processes,omitempty"`
	// Nonce is that of the generation's world, here and in all else that a node
	// says of a generation: what was said of another of the same number counts for nothing.
	Nonce string `json:"nonce,omitempty"`
	// DeviceFiles says how they are kept from devices that are not theirs: bpf,
	// devices, or "not enforced (why)"; empty = their devices have no files.
	DeviceFiles string `json:"device_files,omitempty"`
	// Warm: they were started before their plan, and had run the script up to Parked: where in it they waited, and
	// why there. Cold says why they were not, though it was asked for.
	Warm   bool   `json:"warm,omitempty"`
	Parked string `json:"parked,omitempty"`
	Cold   string `json:"cold,omitempty"`
	// Unforkable says why no launcher can fork workers of this command, here or elsewhere:
	// nothing is prepared of such a job. Empty = one can, or the agent is older than this.
	Unforkable string `json:"unforkable,omitempty"`
}

// NoScript is Unforkable of a command that runs no Python script.
const NoScript = "the command is no Python script"

// How workers are kept from devices that are not theirs.
const (
	// DeviceFilter is a program of the kernel's (BPF) on a cgroup v2.
	DeviceFilter = "bpf"
	// DeviceController is a cgroup of the v1 hierarchy of devices.
	DeviceController = "devices"
)

// DevicesOpen reports whether workers may open devices that are not theirs, as what is said in DeviceFiles has it.
func DevicesOpen(how string) bool { return how != "" && how != DeviceFilter && how != DeviceController }

// NotEnforced is what is said of such a node, and why.
func NotEnforced(why string) string { return Reason("not enforced" + why) }

// Worker is one training process. A pid alone means nothing: it is reused.
type Worker struct {
	Rank      int              `json:"rank"`
	Device    cluster.DeviceID `json:"device"` // the first, if it has all of its node's
	PID       int              `json:"pid"`
	StartTime uint64           `json:"start_time"` // field 22 of /proc/<pid>/stat
}

// Held answers a halt: the highest step that any rank of this node has begun.
// Its ranks begin no later step before they are told Halt.StopAfter.
type Held struct {
	// SDK is false if no rank of the node speaks to its shim: plain scripts are
	// stopped by SIGTERM and agree on a step among themselves.
	SDK bool `json:"sdk"`
	// Begun is the highest step begun, -1 if none was.
	Begun int64 `json:"begun"`
	// Deaf: a worker of the node would not notice being asked to stop. It does not
	// speak to its shim and does not catch SIGTERM: it is only just starting, or
	// never will. Agents that are older than this say it of none.
	Deaf  bool      `json:"deaf,omitempty"`
	At    time.Time `json:"at"`
	Nonce string    `json:"nonce,omitempty"`
}

// FailureKind says whose fault a failure is, which decides what follows.
type FailureKind string

// The kinds of failures.
const (
	WorkerFailed FailureKind = "worker" // a worker exited non-zero or by a signal: counts against MaxRestarts
	NodeRefused  FailureKind = "node"   // this node cannot run the job (no workdir, …): try other nodes
	PortTaken    FailureKind = "port"   // the rendezvous port is in use: try another, counts nothing
	NodeFenced   FailureKind = "fenced" // the node lost touch, or what hosts its workers has died, and they were killed: counts nothing
	// CheckpointDamaged: the checkpoint to resume from is not what was committed. An older one is taken, and nothing counts.
	CheckpointDamaged FailureKind = "checkpoint"
	// DeviceBusy: a process that is not the job's uses a device of the node. It is not
	// counted as a failure of the job; the node has published the device as unhealthy.
	DeviceBusy FailureKind = "device"
	// NoSpace: a disk is full. It is not counted as a failure of the job, which starts again by itself once there is space.
	NoSpace FailureKind = "space"
	// Transient: a file system of the node is read-only, fails or does not answer, as its user database may, or the node is out of something that others may give back.
	// It is not counted as a failure of the job; the node is tried again, a bounded number of times.
	Transient FailureKind = "transient"
)

// MayPass reports whether the node looks for itself when what it failed of is over, and says so by Cleared.
func (k FailureKind) MayPass() bool { return k == NoSpace || k == Transient }

// Failed says why this node's part of the generation cannot go on.
type Failed struct {
	Kind   FailureKind `json:"kind"`
	Reason string      `json:"reason"`
	// Missing: the node refused the job for something that the job names and that the node can look at again: the
	// working directory, the env file, the program or the owner. It says by Cleared when that is there.
	Missing bool     `json:"missing,omitempty"`
	Rank    int      `json:"rank"`               // the first rank that failed; -1 if none
	LogTail []string `json:"log_tail,omitempty"` // its last lines
	// OutOfMemory: a worker had too little memory, of its device or of its limit. With
	// more workers each has a smaller share, which may fit.
	OutOfMemory bool      `json:"out_of_memory,omitempty"`
	At          time.Time `json:"at"`
	Nonce       string    `json:"nonce,omitempty"`
	// Unkillable processes have survived SIGKILL; this is what the part is waited for.
	Unkillable []int `json:"unkillable,omitempty"`
}

// Stopped says that nothing of the generation is left on the node: processes
// are gone, device locks are free, and what its ranks saved is in `saved` or
// given up. Rank 0's node writes it only after its offer, if it makes one.
type Stopped struct {
	Exits []Exit `json:"exits"`
	// Finished: every worker of the node exited 0 of its own accord: no halt had been sent.
	Finished bool `json:"finished"`
	// SignalledAt is when the last worker was told to stop (zero if none was),
	// ExitedAt when the last one was gone, SavedAt when its files were durable.
	SignalledAt time.Time `json:"signalled_at,omitzero"`
	ExitedAt    time.Time `json:"exited_at"`
	SavedAt     time.Time `json:"saved_at,omitzero"`
	// Progress is the last that the node's ranks reported; its record among the
	// node's own is older by up to ten seconds. nil if they said nothing.
	Progress *JobProgress `json:"progress,omitempty"`
	// Unkillable processes are left that have survived SIGKILL. It is pending, so that
	// they never run code of their own again; the node withholds their devices.
	Unkillable []int  `json:"unkillable,omitempty"`
	Nonce      string `json:"nonce,omitempty"`
}

// Cleared says that what the node failed of is over. After a Failed of a kind that
// may pass, or for want of something that a start looks for first, the node looks
// every few seconds whether the job's owner can write and finds it all there, and
// the leader need not wait any longer. Advisory: it starts nothing by itself.
type Cleared struct {
	At    time.Time `json:"at"`
	Nonce string    `json:"nonce,omitempty"`
}

// Exit is how one worker ended.
type Exit struct {
	Rank   int `json:"rank"`
	Code   int `json:"code"`             // exit status; -1 if a signal ended it
	Signal int `json:"signal,omitempty"` // the signal, 0 if none
}
