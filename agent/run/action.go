package run

import "fmt"

// Due is what has to be done now.
type Due struct {
	Actions []Action // in this order
	// At is when Step is to be called at the latest, in nanoseconds of CLOCK_BOOTTIME; 0 = when a fact changes.
	At   int64
	Look Look
	// Tell: the agents are told the report. Keep: it is also written to disk.
	Tell, Keep bool
}

// Action is one thing to do; the set is closed. None of them makes its caller wait for a disk, a user's file system or
// a peer: what may hang goes on beside the run, and Facts say how far it is.
type Action interface{ fmt.Stringer }

type (
	// ReadPlan reads the order that was put into the run directory by Bind.
	ReadPlan struct{}
	// Bind makes the groups that hold the workers within the bounds of the plan, and records them.
	Bind struct{}
	// CheckNode looks at what the workers need on this node, and takes the devices' locks.
	CheckNode struct{}
	// Execute releases parked processes as workers. It executes a worker where no process is parked.
	Execute struct{}
	// Park executes that many processes more, which run ahead until they are parked.
	Park struct{ Processes int }
	// GiveUp lets go of all that runs ahead, which KillAhead ends. Heavy: it had too much memory.
	GiveUp struct {
		Why   string
		Heavy bool
	}
	// KillAhead sends SIGKILL to all that runs ahead or is parked.
	KillAhead struct{}

	// Welcome lets the rank that has connected begin steps.
	Welcome struct{ Local int }
	// Hold asks a rank which step it has begun, and keeps it from beginning another.
	Hold struct{ Local int }
	// StopAfter tells a rank the step after which it saves and exits.
	StopAfter struct {
		Local int
		Step  int64
	}
	// Terminate sends SIGTERM to a worker's own process.
	Terminate struct{ Local int }

	// Abort ends what CheckNode, Execute and Park still have to do: the run is being killed.
	Abort struct{ Why string }
	// Kill sends SIGKILL to all that is inside.
	Kill struct{}

	// StopLogs stops reading what workers have printed.
	StopLogs struct{}
	// ReturnLocks gives up the devices' locks, and sees to it that nothing else of the run has one.
	ReturnLocks struct{}
	// RemoveGroups removes the run's groups, and tries again for a while if one is in use.
	RemoveGroups struct{}
	// Leave ends the shim.
	Leave struct{}
)

func (ReadPlan) String() string     { return "read the plan" }
func (Bind) String() string         { return "bind" }
func (CheckNode) String() string    { return "check the node" }
func (Execute) String() string      { return "execute" }
func (a Park) String() string       { return fmt.Sprintf("park %d", a.Processes) }
func (a GiveUp) String() string     { return "give up what runs ahead: " + a.Why }
func (KillAhead) String() string    { return "kill what runs ahead" }
func (a Welcome) String() string    { return fmt.Sprintf("welcome %d", a.Local) }
func (a Hold) String() string       { return fmt.Sprintf("hold %d", a.Local) }
func (a StopAfter) String() string  { return fmt.Sprintf("stop %d after %d", a.Local, a.Step) }
func (a Terminate) String() string  { return fmt.Sprintf("terminate %d", a.Local) }
func (a Abort) String() string      { return "abort: " + a.Why }
func (Kill) String() string         { return "kill" }
func (StopLogs) String() string     { return "stop logs" }
func (ReturnLocks) String() string  { return "return locks" }
func (RemoveGroups) String() string { return "remove groups" }
func (Leave) String() string        { return "leave" }
