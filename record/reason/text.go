package reason

// What a job's state, its halts, plans and events say.
const (
	Text    Code = "text"     // said in words alone
	LeftOut Code = "left-out" // the rest was too long

	// A job that was submitted.
	Accepted         Code = "accepted"
	SpecInvalid      Code = "spec-invalid"
	SpecTooLarge     Code = "spec-too-large"
	OverLimit        Code = "over-limit"
	NameInUse        Code = "name-in-use"
	DeadlineRefused  Code = "deadline-refused"
	DeadlinePromised Code = "deadline-promised"
	DeadlineInGrace  Code = "deadline-in-grace"

	// A job that waits.
	Undecided       Code = "undecided"
	Undecidable     Code = "undecidable"
	NoNodeAlive     Code = "no-node-alive"
	NoSizeFits      Code = "no-size-fits"
	NodesAway       Code = "nodes-away"
	MoreThanAll     Code = "more-than-all-nodes"
	TooFewDevices   Code = "too-few-devices"
	MoreThanHealthy Code = "more-than-healthy"
	TooFewHealthy   Code = "too-few-healthy"
	NeverFits       Code = "never-fits"
	WaitsForDevices Code = "waits-for-devices"
	DevicesInUse    Code = "devices-in-use"
	Policy          Code = "policy"
	NoPort          Code = "no-port"
	TooManyCompares Code = "too-many-compares"
	PlanTooLarge    Code = "plan-too-large"
	AwaitsParked    Code = "awaits-parked"
	Paused          Code = "paused"
	Resumed         Code = "resumed"
	NodeThere       Code = "node-there"

	// A job that cannot run.
	Unusable            Code = "unusable"
	RefusedEverywhere   Code = "refused-everywhere"
	CannotRunNow        Code = "cannot-run-now"
	StartsAgain         Code = "starts-again"
	TryOf               Code = "try-of"
	NoUsableCheckpoint  Code = "no-usable-checkpoint"
	VerifyElsewhere     Code = "verify-elsewhere"
	NoOtherNodeVerifies Code = "no-other-node-verifies"
	FallingBack         Code = "falling-back"
	CheckpointGivenUpBy Code = "given-up-by"

	// A start.
	StartWith   Code = "start"
	StartAgain  Code = "start-again"
	RestartOf   Code = "restart-of"
	Unpreferred Code = "unpreferred"
	Overtaken   Code = "overtaken"
	StartedCold Code = "started-cold"
	StartsCold  Code = "starts-cold"
	WarmFailed  Code = "warm-failed"

	// A change of size.
	Grow   Code = "grow"
	Shrink Code = "shrink"
	Move   Code = "move"
	GiveUp Code = "give-up"
	Batch  Code = "batch"
	Scaled Code = "scaled"

	// A halt, and how it went.
	StoppedBy       Code = "stopped-by"
	StoppedAtOnce   Code = "stopped-at-once"
	NotWaitedFor    Code = "save-not-waited-for"
	TimeLimit       Code = "time-limit"
	NodeLost        Code = "node-lost"
	NodesLost       Code = "nodes-lost"
	NotStarted      Code = "not-started"
	NotRead         Code = "not-read"
	Exited          Code = "exited"
	NoPlan          Code = "no-plan"
	Killed          Code = "killed"
	MayStillRun     Code = "may-still-run"
	WhileHalting    Code = "while-halting"
	SavedNothing    Code = "saved-nothing"
	KeepsSize       Code = "keeps-size"
	LostSteps       Code = "lost-steps"
	Broken          Code = "broken-world"
	EveryRankExited Code = "finished"

	// Events alone.
	AtOnce         Code = "at-once"
	FromStep       Code = "from-step"
	ScaledTo       Code = "scaled-to"
	Fenced         Code = "fenced"
	LeaseEnded     Code = "lease-ended"
	NodeAt         Code = "node-at"
	AgentEnded     Code = "agent-ended"
	Leads          Code = "leads"
	LeadsAgain     Code = "leads-again"
	LeadsAfter     Code = "leads-after"
	DeadlineMoved  Code = "deadline-moved"
	DeadlineKept   Code = "deadline-kept"
	DeadlineBroken Code = "deadline-broken"

	// A failure.
	WorkerFailed      Code = "worker-failed"
	RankFailed        Code = "rank-failed"
	NodeRefused       Code = "node-refused"
	PortTaken         Code = "port-taken"
	NodeBusy          Code = "node-busy"
	NodeFenced        Code = "node-fenced"
	CheckpointDamaged Code = "checkpoint-damaged"
	NoRoom            Code = "no-room"
	Transient         Code = "transient"
	OutOfMemory       Code = "out-of-memory"
	OutOfMemoryGrows  Code = "out-of-memory-grows"
	OutOfMemoryBatch  Code = "out-of-memory-batch"
	Restart           Code = "restart"
	RestartInVain     Code = "restart-in-vain"
	RestartAtOnce     Code = "restart-at-once"
	GaveUpRestarts    Code = "gave-up"
)

// texts are the clauses' texts, as String says.
var texts = map[Code]string{
	Text:    "{said}",
	LeftOut: cutMark,

	Accepted:         "accepted",
	SpecInvalid:      "spec is not valid: {said}",
	SpecTooLarge:     "this etcd takes no spec of such a size: shorten the command or the environment, or put them into files",
	OverLimit:        "{said}",
	NameInUse:        `name "{name}" is in use by {job}`,
	DeadlineRefused:  "deadline {deadline} is not promised: {said}",
	DeadlinePromised: "deadline {deadline} is promised: {said}",
	DeadlineInGrace:  "deadline {deadline} is not promised, but {by} is, within its grace: {said}",

	Undecided:       "waits for the next decision",
	Undecidable:     "no decision: {said}",
	NoNodeAlive:     "no node is alive",
	NoSizeFits:      "no world size fits its batch size",
	NodesAway:       "waits for {nodes} to be back ({first}: {said}); the other nodes cannot run it{nodes_said}",
	MoreThanAll:     "needs at least {least device}: more than the nodes that can run it have",
	TooFewDevices:   "needs at least {least device}; the nodes that can run it have {total}{nodes_said}",
	MoreThanHealthy: "needs at least {least device}: more than are healthy and not cordoned on nodes that can run it",
	TooFewHealthy:   "needs at least {least device}; of {total} on nodes that can run it {usable} are healthy and not cordoned{nodes_said}",
	NeverFits:       "it never fits the cluster as it is: {said}",
	WaitsForDevices: "waits for {least device}",
	DevicesInUse:    "starts with {n worker} once the devices of {jobs} are free",
	Policy:          "{said}",
	NoPort:          "{said}",
	TooManyCompares: "{n node} of its last world are lost and not back: to start without them takes {compares} compares in one transaction, " +
		"and etcd takes {most}: raise --max-txn-ops of etcd and of the coordinator, or bring some of them back",
	PlanTooLarge: "its plan of {n node} takes {bytes} bytes in one transaction, at most {most}: scale the job to fewer workers",
	AwaitsParked: "waits until what was prepared for it has ended: {said}",
	Paused:       "the cluster is paused: {said}",
	Resumed:      "resumed by {user}",
	NodeThere:    "a node that has not refused it is there",

	Unusable:          "{said}",
	RefusedEverywhere: "cannot run on any node: {said}",
	CannotRunNow:      "cannot run now: {said}",
	StartsAgain:       "the job starts again by itself",
	TryOf:             "try {n} of {most}, then it is held",
	NoUsableCheckpoint: "there is no older one: once it is mended, 'bellows resume {job} --from {step}' tries it again; " +
		"'bellows resume {job} --from-start' does without it",
	VerifyElsewhere:     "another node has to verify it",
	NoOtherNodeVerifies: "no other node could look at its checkpoint: {node}: {said}",
	FallingBack:         "falling back to step {step}",
	CheckpointGivenUpBy: "given up by {user}",

	StartWith:   "start with {n worker}",
	StartAgain:  "start again with {n worker}",
	RestartOf:   "restart after",
	Unpreferred: `no device's model has "{model}" in its name (--prefer-model): there are {models}`,
	Overtaken:   "it was halted to {of}, which was overtaken",
	StartedCold: "started cold: its warm start failed before the first step",
	StartsCold:  "starts cold: its warm start failed before the first step",
	WarmFailed:  "its warm start failed before the first step",

	Grow:   "grow from {from} to {to worker}",
	Shrink: "shrink from {from} to {to worker}",
	Move:   "move {to worker} to other devices",
	GiveUp: "give up {from device}",
	Batch:  "change the batch from {from} to {to sample}",
	Scaled: "scaled by {user}, now {bounds}",

	StoppedBy:     "stopped by {user}",
	StoppedAtOnce: "stopped at once by {user}",
	NotWaitedFor:  "its save was not waited for",
	TimeLimit:     "time limit of {limit} reached",
	NodeLost:      "node {node} lost",
	NodesLost:     "nodes {nodes} lost",
	NotStarted:    "not started within {within}: {nodes}",
	NotRead:       "not started within {within}, with its checkpoint to be read: {nodes}",
	Exited:        "workers on {node} exited unexpectedly",
	NoPlan:        "its plan is missing: it cannot be known who takes part",
	Killed:        "not stopped in time, killed: {nodes}",
	MayStillRun: "{node} did not say that its workers end without it (it was alone in the cluster, has been back in another life since, or is in no plan any more), so they may still run: " +
		"the job goes on when it is back, or, once it is certain that it is switched off, after 'bellows drain {node} --down'",
	WhileHalting:    "while halting, {of}",
	SavedNothing:    "the script saved nothing when it was halted",
	KeepsSize:       "the script saved nothing when it was halted, so the job keeps this size until it saves",
	LostSteps:       "lost: {n step} since {since}",
	Broken:          "{said}",
	EveryRankExited: "every rank exited 0",

	AtOnce:         "at once, whatever it has not saved",
	FromStep:       "from step {step}",
	ScaledTo:       "{bounds}",
	Fenced:         "absent for {waited}: its workers have certainly ended",
	LeaseEnded:     "its lease ended, and it has not come back for {waited}",
	NodeAt:         "at {addr}, version {version}",
	AgentEnded:     "its agent was ended, and nothing ran there",
	Leads:          "leads",
	LeadsAgain:     "leads again",
	LeadsAfter:     "leads after {node}",
	DeadlineMoved:  "{said}",
	DeadlineKept:   "{deadline} can be kept again",
	DeadlineBroken: "{said}",

	WorkerFailed:      "failed on {node}: {said}",
	RankFailed:        "rank {rank} failed on {node}: {said}",
	NodeRefused:       "{node} cannot run it: {said}",
	PortTaken:         "rendezvous port taken on {node}: {said}",
	NodeBusy:          "{node} cannot run it now: {said}",
	NodeFenced:        "node {node}: {said}",
	CheckpointDamaged: "{said} (seen on {node})",
	NoRoom:            "{node} has no room: {said}",
	Transient:         "{node} cannot run it now: {said}",
	OutOfMemory:       "out of memory with {n worker}, the most that it may have: raise --max, or lower --micro-batch or --batch-size",
	OutOfMemoryGrows:  "out of memory with {n worker}: it goes on with {with}",
	OutOfMemoryBatch:  "out of memory with a batch of {batch} samples on {n worker}: it goes on with {most}; a smaller --micro-batch would let it have more",
	Restart:           "restart {n} of {most}",
	RestartInVain:     "restart {n} of {most}: nothing was trained beyond step {step} since the last failure",
	RestartAtOnce:     "restart {n} of {most}, at once: it had come to step {step}",
	GaveUpRestarts:    "gave up after {most restart}",
}
