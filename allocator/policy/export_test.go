package policy

import "github.com/bellows-ml/bellows/allocator"

// LeavesIdle reports whether the policy declares that it leaves devices idle by design.
func LeavesIdle(p allocator.Policy) bool {
	_, ok := p.(leavesIdle)
	return ok
}

// MovesAgain reports whether the policy declares that starting a job can move others once more.
func MovesAgain(p allocator.Policy) bool {
	_, ok := p.(movesAgain)
	return ok
}
