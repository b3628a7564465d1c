package coordinator

import (
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// failures is what a job's state counts of failures that were charged to it.
type failures struct {
	restarts int
	inVain   int    // as State.FailedInVain
	step     int64  // as State.FailedStep
	cold     string // as State.Cold: why the next start uses nothing that was prepared
}

// failuresOf is the count as the job's state has it.
func failuresOf(s record.State) failures {
	return failures{s.Restarts, s.FailedInVain, s.FailedStep, s.Cold}
}

// countedIn is the state with another count of failures.
func (f failures) countedIn(s record.State) record.State {
	s.Restarts, s.FailedInVain, s.FailedStep, s.Cold = f.restarts, f.inVain, f.step, f.cold
	return s
}

// explained is the reason of a start, with why it is cold.
func (f failures) explained(why reason.Reason) reason.Reason {
	if f.cold == "" {
		return why
	}
	return why.And(reason.New(reason.StartedCold))
}
