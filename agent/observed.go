package agent

import (
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Observed is what is really on the node.
type Observed struct {
	Now  time.Time // for the records, not for decisions
	Runs []Run     // in any order, each generation once
}

// Shim is where a run's shim stands.
//
//	Absent ──► Starting ──► Live ──► Dead ──► (removed) Absent
type Shim uint8

// The states of a shim.
const (
	Absent   Shim = iota // no run directory is known of, which does not say that nothing runs
	Starting             // being started; nothing is known of it yet
	Live                 // its process lives
	Dead                 // there is a run directory, and no process of the shim
)

// Run is one generation's part on this node, as found.
type Run struct {
	Job        cluster.JobID
	Generation cluster.Generation
	Nonce      string // of the world that it was begun for
	Shim       Shim
	Report     *run.Report    // the last one known, also of a dead shim; nil if it never reported
	Pushed     *run.Wish      // what the shim was told last over its present connection; nil if nothing
	Verified   bool           // the checkpoint to resume from was found to be as committed
	Refused    *record.Failed // why it could not be started here
	Binding    Binding        // whether it was prepared, and has its plan
	Unprepared string         // why it could not be prepared here
	Earlier    bool           // it was prepared by an earlier agent, or in an earlier life of the node
	// Swept: it was looked whether a process or a device lock is left of a shim that is
	// Dead or Absent, and nothing is.
	Swept  bool
	Killed bool // its workers lived past their deadline, and the agent has killed them
	// KillPending are processes that have survived SIGKILL, where they are all that is left
	// and never run code of their own again: their devices are withheld from new work.
	KillPending []int
	// Digests and Merges are the work on checkpoints, by step: present means begun.
	Digests map[int64]Work[record.Saved]
	Merges  map[int64]Work[record.Offer]
	Plain   *Plain // what a plain script has left; nil where it is not looked for (not rank 0's node)
	// ToldToKill is how long ago its shim was first told to kill, ToldToGo to retire; 0 = it was not.
	ToldToKill, ToldToGo time.Duration
	// Quiet is how long ago anything of this run last changed.
	Quiet time.Duration
}

// Binding says whether a run was prepared before its plan was known, and has it now.
type Binding uint8

// The bindings. A run that is Unbound has no device and never had one; its processes wait for what a plan says.
const (
	Planned Binding = iota // it was started with its plan
	Unbound                // it waits for it
	Bound                  // its plan is in the run directory: it may be told to start
	Spoiled                // its plan could not be put there: it is of no use
)

// unbound reports whether the run waits for its plan, or would.
func (r Run) unbound() bool { return r.Binding == Unbound || r.Binding == Spoiled }

// Work is something slow that runs beside: begun, and perhaps Done with a Value or an error.
type Work[T any] struct {
	Done  bool
	Err   string // why it came to nothing; empty if it went well
	Value T
}

// Plain is what a look into the generation's directory found: plain scripts say
// nothing over a socket.
type Plain struct {
	Final bool  // this is a look taken after the last process was gone
	Step  int64 // of the newest complete checkpoint, -1 if there is none
	// Samples is what the script says of it, -1 if nothing.
	Samples int64
	Dir     string
	// Whole: Dir is the generation's own directory, without step directories. It
	// is a checkpoint only if the script ended properly.
	Whole bool
}

func (r Run) of() record.JobGen { return record.JobGen{Job: r.Job, Generation: r.Generation} }

// ended reports whether no process of the run ever runs code of its own again.
func (r Run) ended() bool { return r.gone() || r.Shim != Starting && len(r.KillPending) > 0 }

// gone reports whether no process of the run can be left.
func (r Run) gone() bool {
	switch r.Shim {
	case Absent:
		return r.Swept
	case Starting:
		return false
	case Live, Dead:
	}
	return r.Report != nil && r.Report.Stopped != nil || r.Shim == Dead && r.Swept
}
