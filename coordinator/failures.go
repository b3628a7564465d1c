package coordinator

import "github.com/bellows-ml/bellows/record"

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

// warmFailed begins what is said of a start that follows a failed warm one.
const warmFailed = "its warm start failed before the first step"

// explained is the reason of a start, with why it is cold.
func (f failures) explained(why string) string {
	if f.cold == "" {
		return why
	}
	return why + "; started cold: " + warmFailed
}
