package cluster

import "slices"

// Phase is where a job stands. One enum, never a set of booleans.
//
//	           ┌────────────────────────── backoff ◄─────────┐ worker failed
//	submit     ▼                                             │
//	  ──► queued ──► starting ──► running ──► halting ───────┤
//	        ▲  ▲         │            │          │  │        │
//	        │  └─────────┴────────────┼──────────┘  └─► starting (next generation)
//	        │   start failed,         │ every rank exited 0
//	        │   devices taken back    ▼
//	      held (needs its owner)   succeeded     failed     stopped     refused (at submission)
type Phase string

// The phases of a job.
const (
	Queued    Phase = "queued"    // waits for devices
	Starting  Phase = "starting"  // a generation is planned; not all of its members have started
	Running   Phase = "running"   // all workers of the generation were started
	Halting   Phase = "halting"   // the generation is saving and stopping
	Backoff   Phase = "backoff"   // a worker failed; the next start waits
	Held      Phase = "held"      // cannot go on without its owner; the reason says why
	Succeeded Phase = "succeeded" // every rank exited 0
	Failed    Phase = "failed"    // gave up; the reason says why
	Stopped   Phase = "stopped"   // its owner stopped it, or its time limit is over; the reason says which
	Refused   Phase = "refused"   // never begun: its deadline could not be promised; the reason says what could be
)

// Terminal reports whether the job has ended for good.
func (p Phase) Terminal() bool {
	return p == Succeeded || p == Failed || p == Stopped || p == Refused
}

// Active reports whether a generation may have processes: the phases in which a job holds devices.
func (p Phase) Active() bool {
	return p == Starting || p == Running || p == Halting
}

// Known reports whether this version knows the phase. Of a job in any other nothing
// is certain, least of all that nothing of it runs.
func (p Phase) Known() bool { return slices.Contains(Phases(), p) }

// Phases returns all of them, in the order in which a job may go through them.
func Phases() []Phase {
	return []Phase{Queued, Starting, Running, Halting, Backoff, Held, Succeeded, Failed, Stopped, Refused}
}
