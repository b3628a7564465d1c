package sim

import (
	"math"
	"time"
)

// Rules are the conventions of a published simulator: they count work and
// decide in place of a policy. What they decide is carried out by the
// coordinator, and the run ends with an error where it was not.
//
// A package below lab/rules implements them for one simulator; this package
// knows none of them.
type Rules interface {
	// Instant is called once at each moment at which a job arrived or ended, or that
	// Instant itself asked for, before the coordinator hears of it. It counts the
	// work of all running jobs and decides which of them run.
	Instant(s *State)
	// Workers is what Instant decided for a job.
	Workers(index int) int
}

// State is what Rules see of a moment.
type State struct {
	Now     time.Duration
	Jobs    []Job // all of the trace
	Arrived []int // indices into Jobs, in the order of the trace
	Ended   []int // in the order of their ends
	// Ends says when each running job will end if nothing else happens; Rules fill it.
	Ends map[int]time.Duration
	// Refused are those that will never run; Rules fill it, and their owners stop them.
	Refused []int
	// Again asks for another Instant at that time; zero = none.
	Again time.Duration
	// Err is why the rules cannot go on; it ends the run.
	Err error
}

// Machines is the cluster of a run, for rules that place jobs by themselves.
type Machines struct{ Nodes, DevicesPerNode int }

// Devices is how many devices all nodes have together.
func (m Machines) Devices() int { return m.Nodes * m.DevicesPerNode }

// Seconds is a number of seconds in whole nanoseconds, which virtual time counts.
func Seconds(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
