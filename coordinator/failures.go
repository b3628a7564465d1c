package coordinator

import "github.com/bellows-ml/bellows/record"

// failures is what a job's state counts of failures that were charged to it.
type failures struct {
	restarts int
	inVain   int   // as State.FailedInVain
	step     int64 // as State.FailedStep
}

// failuresOf is the count as the job's state has it.
func failuresOf(s record.State) failures { return failures{s.Restarts, s.FailedInVain, s.FailedStep} }

// countedIn is the state with another count of failures.
func (f failures) countedIn(s record.State) record.State {
	s.Restarts, s.FailedInVain, s.FailedStep = f.restarts, f.inVain, f.step
	return s
}
