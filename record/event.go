package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// How many events are kept: the newest of each writer, in a ring whose slots are
// overwritten, so that none has to be deleted. The leader's ring is about 1.5
// MB at most and holds weeks of a cluster that people use, or half an hour of a
// script that submits a thousand jobs; a node's holds its last lives and troubles.
const (
	KeptEvents     = 4096
	KeptNodeEvents = 32
	// MaxEventWhy bounds an event's Why, in bytes; Put cuts it.
	MaxEventWhy = 512
)

// EventKind says what happened.
type EventKind string

// What happens to jobs. Those that are named as a phase say that it was entered.
const (
	JobSubmitted    EventKind = "submitted"
	JobQueued       EventKind = "queued"
	JobStarted      EventKind = "started"  // all workers of a generation, where none were before
	JobRescaled     EventKind = "rescaled" // all workers of a generation that replaces another
	JobGained       EventKind = "gained"   // what a rescale has done to the speed was measured
	JobHalting      EventKind = "halting"
	JobKilled       EventKind = "killed" // it did not stop in time
	JobWorkerFailed EventKind = "worker-failed"
	JobBackoff      EventKind = "backoff"
	JobHeld         EventKind = "held"
	JobFellBack     EventKind = "fell-back" // to an older checkpoint
	CheckpointLost  EventKind = "save-lost" // a save that cannot be committed, the first since one that could; told by its node
	JobStopping     EventKind = "stopping"  // its owner asked for it
	JobScaled       EventKind = "scaled"
	JobResumed      EventKind = "resumed"
	JobSucceeded    EventKind = "succeeded"
	JobFailed       EventKind = "failed"
	JobStopped      EventKind = "stopped"
	JobRefused      EventKind = "refused"       // its deadline could not be promised
	DeadlineBroken  EventKind = "deadline-lost" // a promised deadline cannot be kept any more
	DeadlineLate    EventKind = "deadline-late" // it cannot, but a later moment within its grace
	DeadlineKept    EventKind = "deadline-safe" // it can, after all
)

// What happens to nodes and to the cluster.
const (
	NodeJoined    EventKind = "node-joined"
	NodeLeft      EventKind = "node-left"
	NodeLost      EventKind = "node-lost"      // it vanished without a word
	NodeGivenUp   EventKind = "node-fenced"    // as a member of a generation
	NodeDrained   EventKind = "node-drained"   // or cordoned
	NodeUndrained EventKind = "node-undrained" // back in service
	NodeRemoved   EventKind = "node-removed"   // gone for good
	DeviceProblem EventKind = "device-problem" // devices have become unfit, or are missing
	DeviceWell    EventKind = "device-well"    // devices are fit again
	LeaderChanged EventKind = "leader"         // a coordinator leads
)

// Event is one thing that happened, and why: for people, nothing is decided by
// it. It is written with what it tells of, in the same transaction.
type Event struct {
	// Seq numbers the events of one writer, from 1. Numbers that are missing were
	// never written, or are older than what is kept.
	Seq        uint64             `json:"seq"`
	At         time.Time          `json:"at"` // by the writer's clock
	Kind       EventKind          `json:"kind"`
	Job        cluster.JobID      `json:"job,omitempty"`
	Generation cluster.Generation `json:"generation,omitempty"`
	Node       cluster.NodeID     `json:"node,omitempty"`
	Device     cluster.DeviceID   `json:"device,omitempty"` // where it is about one
	Rank       *int               `json:"rank,omitempty"`   // that failed
	// From and To are world sizes, of a start or rescale.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Seconds is how long that took, from the decision to the first worker; OwnS is Bellows's own share.
	Seconds float64 `json:"seconds,omitempty"`
	OwnS    float64 `json:"own_s,omitempty"`
	// Predicted is by which factor a rescale was predicted to change the job's speed, and
	// Measured by which it did; 0 = unknown.
	Predicted float64 `json:"predicted,omitempty"`
	Measured  float64 `json:"measured,omitempty"`
	// Term is the CreateRevision of the key of the leader that leads.
	Term    int64         `json:"term,omitempty"`
	By      string        `json:"by,omitempty"` // who asked for it, or leads
	Why     reason.Reason `json:"because,omitempty"`
	WhyText string        `json:"why,omitempty"` // as State.ReasonText
}
