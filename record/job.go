package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// Submitted is a job's spec with what the leader admitted it under.
type Submitted struct {
	cluster.Spec
	ID    cluster.JobID `json:"id"`
	Owner cluster.Owner `json:"owner"`
	At    time.Time     `json:"at"`
	// Answer is the leader's to its deadline; nil = it has none, or an older leader admitted it.
	Answer *Answer `json:"answer,omitempty"`
}

// Wanted is what the owner last asked for.
type Wanted struct {
	Run bool `json:"run"` // false: stop it
	// Now: a stop does not wait for a save.
	Now bool      `json:"now,omitempty"`
	By  string    `json:"by"`
	At  time.Time `json:"at"`
	// Request is the identifier of the request last carried out: when its answer was
	// lost and it comes again, nothing is left to do.
	Request string `json:"request,omitempty"`
	// DiscardedUpTo: the owner does without what generations up to this one have saved.
	// Without that a job that has lost its checkpoints is held.
	DiscardedUpTo cluster.Generation `json:"forsaken,omitempty"`
	// MinWorkers and MaxWorkers replace those of the spec; 0 = as submitted. ScaledBy asked for that.
	MinWorkers int    `json:"min_workers,omitempty"`
	MaxWorkers int    `json:"max_workers,omitempty"`
	ScaledBy   string `json:"scaled_by,omitempty"`
	// TimeLimit replaces that of the spec; 0 = as submitted.
	TimeLimit cluster.Duration `json:"time_limit,omitempty"`
}

// State is THE record of a job. Only the leader writes it, and compares its ModRevision when it does.
type State struct {
	Phase      cluster.Phase      `json:"phase"`
	Generation cluster.Generation `json:"generation"` // the newest formed; 0 = none yet
	// Reason says why the job is where it is: why it waits, why it was halted, why it failed.
	Reason reason.Reason `json:"because,omitempty"`
	// Waits says what the job waits for before it goes on from there: Reason stays what it was.
	Waits reason.Reason `json:"waits_for,omitempty"`
	// ReasonText and WaitsText are their texts, as Put writes them.
	ReasonText string `json:"reason,omitempty"`
	WaitsText  string `json:"waits,omitempty"`
	// Next is when a Backoff ends.
	Next time.Time `json:"next,omitzero"`
	// Restarts counts the failures charged against Spec.MaxRestarts.
	Restarts int `json:"restarts,omitempty"`
	// FailedInVain counts those of them in a row since the job last trained beyond FailedStep,
	// which is the highest step that is known to have been begun when it failed.
	FailedInVain int   `json:"failed_in_vain,omitempty"`
	FailedStep   int64 `json:"failed_step,omitempty"`
	// Cold says why the next generation uses nothing that was prepared; it is gone once that is planned. Empty = it may.
	Cold string `json:"cold,omitempty"`
	// Pinned: a halt of this job committed nothing, so that rescaling it would
	// lose its work; it keeps its world until it commits.
	Pinned bool `json:"pinned,omitempty"`
	// Rewound: the owner has gone back to an older checkpoint, so what generations
	// up to this one still offer is not committed any more.
	Rewound cluster.Generation `json:"rewound,omitempty"`
	// RewoundFrom is the step that was committed then.
	RewoundFrom int64 `json:"rewound_from,omitempty"`
	// Doubted: the committed checkpoint is read as a whole before anything starts
	// from it, as Plan.Doubted says; until a generation has.
	Doubted bool `json:"doubted,omitempty"`
	// Excluded nodes refused the job; each with its reason.
	Excluded map[cluster.NodeID]string `json:"excluded,omitempty"`
	// Passing are those of the excluded nodes whose reason may pass. They are tried
	// again where the job can run nowhere else, and when they say that it is over.
	Passing []cluster.NodeID `json:"passing,omitempty"`
	// Retries counts the waits for such reasons, since the job last committed a checkpoint or ran for a while.
	Retries int `json:"retries,omitempty"`
	// RoomWaits counts those for room on a disk since then, which have no bound.
	RoomWaits int `json:"room_waits,omitempty"`
	// OutOfMemory is the largest world that has too little memory, because a worker ran out of
	// it there, or in a larger one while that was halted: the job forms none of that size
	// or below, where shares are larger still, until its owner resumes it. 0 = none has.
	OutOfMemory int `json:"out_of_memory,omitempty"`
	// BatchLimit is the largest batch that the job has until its owner resumes it, because a worker ran out
	// of memory with a larger one. 0 = any that its spec allows.
	BatchLimit int `json:"batch_limit,omitempty"`
	// Suspect is the committed checkpoint where one node finds it damaged and
	// another is to look at it before it is given up.
	Suspect *Suspect `json:"suspect,omitempty"`
	// Trained is how long the job had workers in generations that are over, and
	// Service that times their number (device time), counted from plan to end.
	Trained cluster.Duration `json:"trained,omitempty"`
	Service cluster.Duration `json:"service,omitempty"`
	// Ran is how long the job was in phase running before it entered the present
	// one, since it was submitted or last resumed: what the time limit counts.
	Ran cluster.Duration `json:"ran,omitempty"`
	// Failure is the last failure of a worker, for people.
	Failure *Failed   `json:"failure,omitempty"`
	Since   time.Time `json:"since"` // when Phase was entered
}

// Why says why the job is where it is, and what it waits for.
func (s State) Why() reason.Reason { return s.Reason.And(s.Waits...) }

// Anew is the state of a job whose owner resumes it: where it is, how far it went back and what
// it has used stay, all that went wrong before is forgotten, and its checkpoint is read as a whole once more.
func (s State) Anew() State {
	return State{
		Phase: s.Phase, Since: s.Since, Generation: s.Generation, Reason: s.Reason,
		Rewound: s.Rewound, RewoundFrom: s.RewoundFrom, Trained: s.Trained, Service: s.Service, Doubted: true,
	}
}

// Plan is a generation: the world part is write-once.
type Plan struct {
	World cluster.World `json:"world"`
	// Resume is the checkpoint to load; nil = from the beginning.
	Resume *Checkpoint `json:"resume,omitempty"`
	// Doubted: a node which thinks that it knows Resume to be sound has to read it
	// all the same: another has found it damaged, workers that began from it have
	// failed, or the owner has resumed the job.
	Doubted bool `json:"doubted,omitempty"`
	// Cold says why nothing that was prepared is used, as in State; empty = it may be.
	Cold string `json:"cold,omitempty"`
	// From is the size of the world that this one replaces; 0 = the job was not running.
	From    int           `json:"from,omitempty"`
	Why     reason.Reason `json:"because,omitempty"`
	WhyText string        `json:"why"` // as State.ReasonText
	At      time.Time     `json:"at"`
}

// Of reports whether the plan is of a generation, as its key says. One that says
// otherwise was written by hand, and says nothing of who takes part.
func (p Plan) Of(job cluster.JobID, g cluster.Generation) bool {
	return p.World.Job == job && p.World.Generation == g
}

// Permit exists while its generation may run. Deleting it stops the workers at once.
type Permit struct {
	At time.Time `json:"at"`
}

// Halt asks a generation to stop.
type Halt struct {
	Why     reason.Reason `json:"because,omitempty"`
	WhyText string        `json:"why"` // as State.ReasonText
	// Save: workers may save first, until Deadline. Otherwise they are killed now.
	Save     bool      `json:"save"`
	Deadline time.Time `json:"deadline"`
	// To is how many workers the job was to have instead, where a decision has
	// halted it for another world; nil = it was halted for something else.
	To *int `json:"to,omitempty"`
	// StopAfter is the last step that every rank finishes before it saves and
	// exits; nil while not all nodes have answered Held. -1: nothing was begun
	// anywhere, stop now.
	StopAfter *int64 `json:"stop_after,omitempty"`
	// Terminate: all nodes have answered, and no rank anywhere speaks to its shim.
	// Plain scripts are told by SIGTERM, and agree on a step among themselves.
	Terminate bool      `json:"terminate,omitempty"`
	At        time.Time `json:"at"`
}

// Fence records that the leader gave up a member: its alive key was absent for WaitedMS on the leader's own clock.
type Fence struct {
	AliveRev int64     `json:"alive_rev"`
	WaitedMS int64     `json:"waited_ms"`
	At       time.Time `json:"at"`
}

// Rescale tells how a generation came to be and what it cost, in seconds:
//
//	decided ─signal─► last worker told ─save─► last exit ─wait─► fenced ─commit─► planned ─start─► first exec … last exec
//
// Own is Bellows's own share: signal + commit + start up to the first exec. Wait
// is what safety costs when a node is lost, until its workers have certainly ended;
// it is 0 where nothing was fenced.
type Rescale struct {
	Generation cluster.Generation `json:"generation"`
	From       int                `json:"from"` // world sizes; 0 = was not running
	To         int                `json:"to"`
	Why        reason.Reason      `json:"because,omitempty"`
	WhyText    string             `json:"why"` // as State.ReasonText
	At         time.Time          `json:"at"`
	SignalS    float64            `json:"signal_s"`
	SaveS      float64            `json:"save_s"`
	WaitS      float64            `json:"wait_s,omitempty"`
	CommitS    float64            `json:"commit_s"`
	StartS     float64            `json:"start_s"`
	OwnS       float64            `json:"own_s"`
	ResumeStep int64              `json:"resume_step"` // -1 = from the beginning
	LostSteps  int64              `json:"lost_steps"`  // begun but not saved; -1 = unknown
	// Predicted is by which factor it was predicted to change the speed; 0 = unknown.
	Predicted float64 `json:"predicted,omitempty"`
}

// Decision is what the allocator decided last, for people and tools.
type Decision struct {
	Policy string    `json:"policy"`
	At     time.Time `json:"at"`
	// Asked is when the policy was last asked about all jobs, by the leader's clock:
	// before At, where it was then asked only about devices that had become idle.
	Asked time.Time `json:"asked,omitzero"`
	Value float64   `json:"value"` // of the policy's own objective
	Bound float64   `json:"bound"` // a certified upper bound of it, 0 = none
	Moves []Move    `json:"moves"`
}

// Granted says which transaction was the last to change which devices jobs have. A
// leader compares when it was written: where etcd was restored from a backup, it is
// older than the leader knows it.
type Granted struct {
	By string `json:"by"` // the transaction, for people
}

// Move is one job's change of size.
type Move struct {
	Job  cluster.JobID `json:"job"`
	From int           `json:"from"`
	To   int           `json:"to"`
	Why  string        `json:"why,omitempty"`
}
