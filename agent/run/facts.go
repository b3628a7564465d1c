package run

import (
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Facts are all that is known of a run on its node. They are levels, not events: the shell brings them up to date and
// calls Step after each change, and Step may be called again with the same facts.
type Facts struct {
	Now    int64     // CLOCK_BOOTTIME, in nanoseconds
	Clock  time.Time // the wall clock: for records, not for decisions
	Looked Look      // which of the facts that nothing announces were looked at for this Step

	Wish Wish   // the newest that an agent has sent
	Told string // why the shim itself was told to end, in words; empty = it was not
	// Refused is what keeps the run from being carried out on this node at all, found before its first Step; nil = nothing does.
	Refused *record.Failed

	// Work that an Action has begun. It goes on beside the shell's loop.
	Plan      Plan
	Binding   Binding
	Node      NodeCheck
	Execution Execution
	Ahead     Ahead

	Workers []Worker // by local rank; none before the plan is known
	Inside  Inside
	Links   int  // connections of workers' SDKs that are open
	Logs    bool // what workers print may still come
	// LocksFree: after ReturnLocks, the devices' locks are there for the next run. GroupsGone: after RemoveGroups, the run's
	// groups are removed, or could not be.
	LocksFree, GroupsGone bool
	Written               bool // the newest Report is on disk
}

// worker returns the worker of a local rank. It is the zero Worker if the shell knows none.
func (f *Facts) worker(local int) Worker {
	if local < len(f.Workers) {
		return f.Workers[local]
	}
	return Worker{}
}

// Look names facts that nothing announces. The shell looks at those that Due.Look has before it calls Step again, and
// calls Step now and then while it has any.
type Look uint8

// The looks.
const (
	LookSignals Look = 1 << iota // Worker.Deaf
	LookInside                   // Inside.Empty
	LookNames                    // Inside.Left and KillPending
	LookOutput                   // Worker.Silent and Lines, Facts.Logs and Links
	LookAhead                    // whether parked processes live, and their memory

	// LookAll is all of them.
	LookAll = LookSignals | LookInside | LookNames | LookOutput | LookAhead
)

// Task is what an Action has begun. The shell sets it to its zero value when it carries the action out.
type Task struct {
	Done   bool
	Failed *record.Failed // why it came to nothing; nil = it went well
}

// Plan is what ReadPlan has found in the run directory.
type Plan struct {
	Task
	Order Order
}

// Binding is what Bind has done.
type Binding struct {
	Task
	DeviceFiles string // Report.DeviceFiles
	Processes   int    // Report.Processes
}

// NodeCheck is how far CheckNode is.
type NodeCheck struct {
	Task
	Waiting string // what it waits for, in words
	// Locking: it takes the devices' locks. It touches nothing any more that may hang, and the run waits for its end.
	Locking    bool
	Unforkable string // Report.Unforkable
}

// Execution is how far Execute is.
type Execution struct {
	Task
	Unreleased string // why parked processes were not released, in words: no worker was executed
	Warm       bool   // they were, as the workers
}

// Ahead is what runs ahead of the plan.
type Ahead struct {
	Working   bool   // Park goes on
	Executing bool   // it is executing a process at this moment, which cannot be taken back
	Failed    string // why it came to nothing, in words; empty = it did not
	Parked    []Parked
	Living    int   // processes that run ahead or are parked
	Memory    int64 // bytes that these have together
	Most      int64 // bytes that one of these has
}

// Parked is a process that waits to be released.
type Parked struct {
	Place  string // where in the script, and why there
	Memory int64  // bytes
	Dead   bool   // it has ended
}

// Worker is one rank of this node.
type Worker struct {
	PID        int // 0 = it is not executed
	StartTime  uint64
	ExecutedAt time.Time
	// Link numbers the connections of its SDK, from 1; 0 = none is open. Begun is the newest step that it has begun, as it
	// answered to Hold over this connection; nil = it has not.
	Link  int
	Begun *int64
	// StoppedAt is when a StopAfter has reached it; zero = none has.
	StoppedAt time.Time
	Deaf      bool // its process does not catch SIGTERM
	Exit      *record.Exit
	ExitedAt  time.Time
	How       string // how it ended, in words
	// OutOfMemory: it ended because it had reached its limit of memory.
	OutOfMemory bool
	Silent      bool     // all that it has printed and said is read
	Lines       []string // the last ones that it has printed
	// Unsaved says why its last save failed, if a full disk or a failing file system was to blame, and UnsavedFor which.
	Unsaved    string
	UnsavedFor record.FailureKind
}

// runs reports whether the worker was executed and has not ended.
func (w Worker) runs() bool { return w.PID != 0 && w.Exit == nil }

// Inside is what lives in the run's containment.
type Inside struct {
	Empty bool
	Left  []Process // by pid
	// KillPending: SIGKILL is pending for each thread of all that is left, and none of it can fork.
	KillPending bool
	Names       []string // of Left, for people
}
