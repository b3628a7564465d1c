package allocator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Policy decides how many workers each job gets. It is a pure function: a value
// that it wants to remember goes into Output.Memory and comes back in the next Input.
type Policy interface {
	Name() string
	Allocate(Input) Output
}

// Input is the snapshot that a decision is made from. Policies must not modify it.
type Input struct {
	Now   time.Time
	Seed  uint64
	Nodes []cluster.Node // alive, sorted by ID; cordoned ones have no usable devices
	Jobs  []JobView      // every job that runs or waits, sorted by SubmittedAt, then ID
	// Between marks a question asked between two intervals: idle devices may go to
	// waiting jobs, and everything that runs keeps what it has.
	Between bool
	Memory  []byte // the last Output.Memory, nil at first

	devices *Devices // of Nodes, read once by Run for itself and the policy
}

// JobView is what a policy may know of a job.
type JobView struct {
	ID          cluster.JobID
	Sizes       []int // the world sizes it may have, ascending, never empty: powers of two unless its owner has listed others
	BatchSize   cluster.BatchSize
	Priority    int
	Deadline    time.Time // zero = none
	SubmittedAt time.Time
	Workers     int  // in its present world; 0 = it waits
	Pinned      bool // must keep its present world
	// Remaining is the work left, as time on one device; 0 = unknown.
	Remaining time.Duration
	// Trained is how long it has had workers; Service is that times their number (device time attained).
	Trained time.Duration
	Service time.Duration
	// Speeds are throughputs at each of Sizes relative to one device; nil = the
	// default model k·0.8^log2(k) (Hu et al., section 4).
	Speeds []float64
	// Present is the allocation in force; zero if it waits.
	Present cluster.Allocation
	// Excluded nodes cannot run the job.
	Excluded []cluster.NodeID
}

// Output is a policy's answer: one Decision for each job of the Input, in any order.
type Output struct {
	Decisions []Decision
	Value     float64 // of the policy's own objective, 0 if it has none
	Bound     float64 // a certified upper bound of the objective, 0 if none
	Memory    []byte
}

// Decision is how many workers one job gets.
type Decision struct {
	Job       cluster.JobID
	Workers   int // 0 = wait, else one of the job's Sizes
	BatchSize int // samples per global step; 0 = the smallest of the job's that Workers divides
	// Reason says in a few words why, for `bellows show`; may be empty where nothing changes.
	Reason string
}
