package api

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// JobStatus is everything that a person may want to know of a job.
type JobStatus struct {
	ID    string `json:"id"`
	Owner string `json:"owner"` // user name
	UID   uint32 `json:"uid"`
	// Spec is what was submitted, as far as who asks may see it: see cluster.Spec.Shown. Its fields stand beside the
	// others in JSON; of its Progress, the pattern that lines are read by, only the field below is shown.
	cluster.Spec
	// Priority is the spec's; here it is shown where it is 0, too.
	Priority int `json:"priority"`

	Phase cluster.Phase `json:"phase"`
	// Ended: the phase is final.
	Ended bool `json:"ended"`
	// Saving: it is being halted and may save first.
	Saving bool `json:"saving"`
	// SaveUntil is by when a job that saves is killed if it has not ended.
	SaveUntil *time.Time `json:"save_until,omitempty"`
	// Stopping: its owner has asked for it to be stopped.
	Stopping bool `json:"stopping"`

	Workers int `json:"workers"` // present world size, 0 = no world
	// MicroBatch is how many samples a device takes at once, given or not.
	MicroBatch int `json:"micro_batch,omitempty"`
	// GraceS is for how long after its deadline an end is of use still, in seconds; 0 = not at all.
	GraceS float64 `json:"grace_s,omitempty"`
	// Answer is what became of its deadline; nil = it has none, or there is no answer yet.
	Answer *DeadlineAnswer `json:"deadline_answer,omitempty"`
	// Unadmitted: no coordinator has carried its submission out yet.
	Unadmitted bool `json:"unadmitted,omitempty"`
	// NoLeader: nor will one before a coordinator leads.
	NoLeader bool `json:"no_leader,omitempty"`
	// TimeLimitS is how long it may be running, in seconds, over all generations; 0 = as long as it takes.
	TimeLimitS float64 `json:"time_limit_s,omitempty"`
	// RanS is how long it had been running when it entered the present phase, since
	// it was submitted or last resumed. Waiting, starting and saving do not count.
	RanS float64 `json:"ran_s"`
	// LimitAt is when a running job will have reached its time limit.
	LimitAt *time.Time `json:"limit_at,omitempty"`
	// TimedOut: its time limit has ended it.
	TimedOut bool `json:"timed_out"`

	Generation  uint64    `json:"generation"` // 0 = never formed
	SubmittedAt time.Time `json:"submitted_at"`
	Since       time.Time `json:"since"` // when the phase was entered
	// Reason says why the job is where it is.
	Reason string `json:"reason,omitempty"`
	// Because is the same as codes and arguments.
	Because reason.Reason `json:"because,omitempty"`
	// WhyPending says why it has no workers yet; empty unless it waits.
	WhyPending    string     `json:"why_pending,omitempty"`
	QueuePosition int        `json:"queue_position,omitempty"` // from 1; 0 = does not wait
	NextStart     *time.Time `json:"next_start,omitempty"`     // the end of a backoff
	// Start is when a job that waits will start, as predicted; nil = that cannot be said.
	Start *PredictedStart `json:"predicted_start,omitempty"`
	// Pinned: it keeps its size until it commits a checkpoint.
	Pinned bool `json:"pinned"`
	// Excluded are nodes that cannot run it, with the reasons.
	Excluded map[string]string `json:"excluded,omitempty"`

	Progress Progress `json:"progress"`
	JobSpeed
	// Problems stop nothing yet, but people should know of them.
	Problems   []Problem `json:"problems,omitempty"`
	LastResize *Resize   `json:"last_resize,omitempty"`
	// OutOfMemory is the largest world that has too little memory, by a worker that ran out of
	// it; since then the job has only larger ones. 0 = none has.
	OutOfMemory int `json:"out_of_memory,omitempty"`
	// BatchLimit is the largest batch that it has since a worker ran out of memory with a larger one. 0 = none has.
	BatchLimit int        `json:"batch_limit,omitempty"`
	Restarts   int        `json:"restarts"`
	Failure    *Failure   `json:"failure,omitempty"`
	ExitCode   *int       `json:"exit_code,omitempty"` // of an ended job, as long as it is known: `bellows run` exits with it, or with 1 if a stopped one's is 0
	Members    []Member   `json:"members,omitempty"`   // of the present generation
	Next       []Prepared `json:"next,omitempty"`      // where the next generation is prepared, by node
	// Unforkable says why the workers of a Python script are executed and nothing is prepared.
	Unforkable  string       `json:"unforkable,omitempty"`
	Rescales    []Rescale    `json:"rescales,omitempty"` // by generation
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`
}

// Progress is how far a job has come, as far as it says so.
type Progress struct {
	// Generation is the one that reported it; 0 = nothing is reported, or a checkpoint alone tells of the step.
	Generation uint64   `json:"generation,omitempty"`
	Step       int64    `json:"step"`    // optimiser steps finished
	Samples    int64    `json:"samples"` // since the start of training; -1 = unknown
	Loss       *float64 `json:"loss,omitempty"`
	// BaseSteps is what the steps are worth in steps at the smallest batch, in which
	// StepsTotal counts; 0 = as many.
	BaseSteps  int64 `json:"base_steps,omitempty"`
	StepsTotal int64 `json:"steps_total,omitempty"` // 0 = unknown
	// Fraction is how much of StepsTotal is done; nil = unknown.
	Fraction *float64 `json:"fraction,omitempty"`
	// StepsPerSecond is measured by the present generation, from its first finished step on.
	StepsPerSecond float64    `json:"steps_per_second,omitempty"`
	At             *time.Time `json:"at,omitempty"` // when it was reported
	// Line is the line by which the progress bar was chosen that is read, with
	// --progress auto; for the owner only.
	Line string `json:"line,omitempty"`
}

// Problem is trouble that a node sees with a generation that runs, that did just before, or that was the job's last.
type Problem struct {
	Node       string    `json:"node"`
	Generation uint64    `json:"generation"`
	Text       string    `json:"text"`
	At         time.Time `json:"at"`
}

// Resize is the last change of a job's size.
type Resize struct {
	Generation uint64        `json:"generation"`
	From       int           `json:"from"`
	To         int           `json:"to"`
	Why        string        `json:"why"`
	Because    reason.Reason `json:"because,omitempty"` // as JobStatus.Because
	At         time.Time     `json:"at"`
}

// Failure is the last failure of a job's workers.
type Failure struct {
	Kind     string    `json:"kind"`
	Reason   string    `json:"reason"`
	Node     string    `json:"node,omitempty"`
	Rank     int       `json:"rank"`                // the first that failed; -1 if none
	ExitCode *int      `json:"exit_code,omitempty"` // as a shell reports it: 128+n for signal n
	LogTail  []string  `json:"log_tail,omitempty"`  // for the owner only
	At       time.Time `json:"at"`
}

// Member is one node's part of a job's present generation.
type Member struct {
	Node      string   `json:"node"`
	Devices   []string `json:"devices"`
	Model     string   `json:"model,omitempty"` // of these devices; of several models all, with commas
	FirstRank int      `json:"first_rank"`
	Processes int      `json:"processes"` // how many ranks it has, from FirstRank on
	Started   bool     `json:"started"`
	Stopped   bool     `json:"stopped"`
	PIDs      []int    `json:"pids,omitempty"` // by local rank, once started
	// Containment says how its processes are held together: cgroup2, cgroup1 or weak.
	Containment string `json:"containment,omitempty"`
	// ProcessLimit is how many processes and threads its ranks may have together; 0 = any number.
	ProcessLimit int `json:"process_limit,omitempty"`
	// DeviceFiles says how they are kept from devices that are not theirs: bpf,
	// devices, or "not enforced (why)"; empty = nothing is known of it.
	DeviceFiles string `json:"device_files,omitempty"`
	// Warm: its processes were started before their plan, and had run the script up to Parked: where in it they waited,
	// and why there. Cold says why they were not, though it was prepared.
	Warm   bool   `json:"warm,omitempty"`
	Parked string `json:"parked,omitempty"`
	Cold   string `json:"cold,omitempty"`
	Lost   bool   `json:"lost"` // the node is not in the cluster now
	// Readings are what its devices are doing, as NodeStatus has them; of one job's answer only.
	Readings     []DeviceReading `json:"readings,omitempty"`
	ReadingsAgeS *float64        `json:"readings_age_s,omitempty"`
	NoReadings   string          `json:"no_readings,omitempty"`
}

// Prepared is how far a node has prepared a job's next generation.
type Prepared struct {
	Node        string `json:"node"`
	Ready       bool   `json:"ready"`                  // as many processes wait there as it would need
	Cold        string `json:"cold,omitempty"`         // why none will; empty, and not ready: it is being prepared
	Workers     int    `json:"workers,omitempty"`      // how many wait; 0 = none, or the node does not say
	MemoryBytes int64  `json:"memory_bytes,omitempty"` // of what waits; 0 = unknown
}

// Rescale is how a generation came to be and what it cost, in seconds. Own is
// Bellows's own share: signal, commit and start up to the first exec.
type Rescale struct {
	Generation uint64        `json:"generation"`
	From       int           `json:"from"`
	To         int           `json:"to"`
	Why        string        `json:"why"`
	Because    reason.Reason `json:"because,omitempty"` // as JobStatus.Because
	At         time.Time     `json:"at"`
	SignalS    float64       `json:"signal_s"`
	SaveS      float64       `json:"save_s"`
	WaitS      float64       `json:"wait_s,omitempty"` // for a lost node to be fenced
	CommitS    float64       `json:"commit_s"`
	StartS     float64       `json:"start_s"`
	OwnS       float64       `json:"own_s"`
	ResumeStep int64         `json:"resume_step"` // -1 = from the beginning
	LostSteps  int64         `json:"lost_steps"`  // begun but not saved; -1 = unknown
	// Predicted is by which factor it was predicted to change the speed, and Measured by
	// which it did, as far as its sizes were measured; 0 = unknown.
	Predicted float64 `json:"predicted,omitempty"`
	Measured  float64 `json:"measured,omitempty"`
}

// Checkpoint is one committed checkpoint.
type Checkpoint struct {
	Step       int64  `json:"step"`
	Generation uint64 `json:"generation"`
	Samples    int64  `json:"samples"` // -1 = unknown
	Dir        string `json:"dir"`
	Bytes      int64  `json:"bytes"`
	WorldSize  int    `json:"world_size"`
	Committed  bool   `json:"committed"` // the one a next generation resumes from
	// Bad says why it was given up; empty if it was not.
	Bad     string        `json:"bad,omitempty"`
	Because reason.Reason `json:"because,omitempty"` // Bad as codes and arguments
}

// NodeStatus is one node as the answering agent sees it.
type NodeStatus struct {
	ID    string `json:"id"`
	Alive bool   `json:"alive"` // by its lease in etcd
	// Gossip is what the answering agent hears of it: alive, suspect, dead, left,
	// or empty if it never heard of it.
	Gossip string `json:"gossip,omitempty"`
	Addr   string `json:"addr,omitempty"`
	// TrainAddr is where its workers are reached, where that is not at Addr.
	TrainAddr string `json:"train_addr,omitempty"`
	Version   string `json:"version,omitempty"`
	Problem   string `json:"problem,omitempty"` // why devices are missing
	// Location is where it is in the network, from the outermost switch in.
	Location string `json:"location,omitempty"`
	// TopologyProblem says what of its topology is not used, why, and the remedy.
	TopologyProblem string         `json:"topology_problem,omitempty"`
	Cordon          string         `json:"cordon,omitempty"` // why it gets no new work
	Drain           bool           `json:"drain"`            // what runs on it goes elsewhere
	Devices         []DeviceStatus `json:"devices"`

	// DeviceFiles says how its workers are kept from devices that are not theirs, as
	// in Member; empty also of devices that have no files.
	DeviceFiles string `json:"device_files,omitempty"`
	// PricePerHour is what it costs while it runs something, as its agent was told; 0 = nothing more.
	PricePerHour float64 `json:"price_per_hour,omitempty"`
	// Launchers are how many wait there to start jobs' next generations, and LauncherBytes the
	// memory that they had when they were ready.
	Launchers     int    `json:"launchers,omitempty"`
	LauncherBytes int64  `json:"launcher_bytes,omitempty"`
	Driver        string `json:"driver,omitempty"` // the version of its devices' driver
	// ReadingsAgeS is how old its devices' readings are, in seconds; nil if there are
	// none, and NoReadings says why.
	ReadingsAgeS *float64 `json:"readings_age_s,omitempty"`
	NoReadings   string   `json:"no_readings,omitempty"`
	Simulated    bool     `json:"simulated"` // its devices exist in name only
	// ClockAheadS is by how many seconds its clock is ahead of the answering node's,
	// negative = behind; nil = they agree as far as can be told.
	ClockAheadS *float64 `json:"clock_ahead_s,omitempty"`
	// Links are how its devices reach each other, where it says so.
	Links []DeviceLink `json:"links,omitempty"`
}

// DeviceStatus is one device and whose it is.
type DeviceStatus struct {
	ID          string `json:"id"`
	Model       string `json:"model"`
	MemoryBytes uint64 `json:"memory_bytes"`
	Health      string `json:"health"`
	Problem     string `json:"problem,omitempty"` // what is wrong with it
	// Group is the NVLink or PCIe group of its node that it is in, and NUMA its NUMA node, as
	// placement uses them; empty = not known, or not used.
	Group      string `json:"group,omitempty"`
	NUMA       string `json:"numa,omitempty"`
	Job        string `json:"job,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Rank       *int   `json:"rank,omitempty"`
	// Place is where it is, where its node says so.
	Place *DevicePlace `json:"place,omitempty"`
	// Reading is what it is doing, where its node says so.
	Reading *DeviceReading `json:"reading,omitempty"`
}

// AgentStatus is the answering agent and what it sees of the cluster.
type AgentStatus struct {
	Node    string `json:"node"`
	Version string `json:"version"`
	Cluster string `json:"cluster"`
	Leader  string `json:"leader"` // the leader's name; empty = there is none
	UID     uint32 `json:"uid"`    // the user that the agent runs as
	// Caller is the caller as the kernel names it.
	Caller string `json:"caller"`
	// Revision of etcd up to which the agent has read the records: what it answers after
	// this is no older.
	Revision int64 `json:"revision"`
}

// SubmitRequest asks for a job. RequestID comes from NewRequestID: sending the
// same one again is the same submission.
type SubmitRequest struct {
	RequestID string       `json:"request_id"`
	Spec      cluster.Spec `json:"spec"`
}

// SubmitReply says that the job is accepted, durably.
type SubmitReply struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Leader string `json:"leader"` // empty: accepted, and queued until a coordinator leads
	// Warnings are what its submitter should look at, though it is accepted.
	Warnings []string `json:"warnings,omitempty"`
}

// StopRequest asks a job to save and stop.
type StopRequest struct {
	// RequestID comes from NewRequestID: sending the same one again is the same
	// request. Empty: the agent makes one.
	RequestID string `json:"request_id,omitempty"`
	// Now: it is killed without waiting for a save; what is not saved is lost.
	Now bool `json:"now,omitempty"`
}

// StopReply says what stopping came to.
type StopReply struct {
	ID    string        `json:"id"`
	Phase cluster.Phase `json:"phase"` // as it was when the request came
	Ended bool          `json:"ended"` // it had ended already; nothing was asked
	// Stopping: it had been asked to stop before, which one more request does not hasten unless it says Now.
	Stopping bool `json:"stopping"`
	// SaveUntil is by when a job that saves is killed if it has not ended.
	SaveUntil *time.Time `json:"save_until,omitempty"`
	// SaveWithinS is how long its script may take to save once it is told, in seconds.
	SaveWithinS float64 `json:"save_within_s"`
}

// ResumeRequest says where a resume begins.
type ResumeRequest struct {
	// RequestID is as in StopRequest.
	RequestID string `json:"request_id,omitempty"`
	// From is a step: of a committed checkpoint, or of one that was given up and is
	// to be tried again; record.FromStart for the beginning of the training; nil for
	// the last checkpoint committed.
	From *int64 `json:"from,omitempty"`
	// TimeLimit is how long it may be running from then on; 0 = as before.
	TimeLimit cluster.Duration `json:"time_limit,omitempty"`
}

// ResumeReply says what is resumed.
type ResumeReply struct {
	ID   string `json:"id"`
	Step int64  `json:"step"` // where it begins; record.FromStart = at the beginning
}

// ScaleRequest asks for other bounds of a job's worlds and its time; 0 = as it was.
type ScaleRequest struct {
	// RequestID is as in StopRequest.
	RequestID  string           `json:"request_id,omitempty"`
	MinWorkers int              `json:"min_workers,omitempty"`
	MaxWorkers int              `json:"max_workers,omitempty"`
	TimeLimit  cluster.Duration `json:"time_limit,omitempty"`
}

// ScaleReply says what the bounds will be.
type ScaleReply struct {
	ID         string           `json:"id"`
	MinWorkers int              `json:"min_workers"`
	MaxWorkers int              `json:"max_workers"`
	TimeLimit  cluster.Duration `json:"time_limit,omitempty"`
}

// DrainRequest asks that a node gets no new work and what runs there goes elsewhere.
type DrainRequest struct {
	Reason string `json:"reason"`
	// Down: the caller has made sure that nothing runs on the node any more.
	Down bool `json:"down,omitempty"`
}

// DrainReply says which node it is about, and how many jobs have devices there.
type DrainReply struct {
	Node string `json:"node"`
	Jobs int    `json:"jobs"`
}

// RemoveReply says what removing a node came to.
type RemoveReply struct {
	Node string `json:"node"`
	// Removed: it is done. Otherwise it is asked for, and done once a coordinator leads.
	Removed bool `json:"removed"`
}

// LogLine is one line that a worker wrote.
type LogLine struct {
	Node       string `json:"node"`
	Rank       int    `json:"rank"`
	Generation uint64 `json:"generation"`
	Text       string `json:"text"`
	// At is when the line was read while following; zero for what was there already.
	At time.Time `json:"at,omitzero"`
	// After is where the line ends: with it in LogQuery.After a reading goes on from there.
	After *Position `json:"after,omitempty"`
	// Begin is true in a line that is none of a worker's, with which an answer to a
	// query with Tail and Follow says early what Tail has come to, so that a reading
	// that was cut off goes on there instead of applying it again: after which
	// position the rank is read, or, of rank -1, for which generation Tail counts; 0 = for none.
	Begin bool `json:"begin,omitempty"`
	// Notice replaces Text where lines are missing or late, and says why.
	Notice string `json:"notice,omitempty"`
	// Missing: a notice of lines that this answer should have had and has not.
	Missing bool `json:"missing,omitempty"`
	// End is true in the last line of an answer, which is nothing but its end:
	// an answer without it was cut off. Client's methods keep it to themselves.
	End bool `json:"end,omitempty"`
}
