package agent

import "github.com/bellows-ml/bellows/agent/fence"

// Fenced reports whether the workers of all runs die by a deadline of which this
// node's lease is not needed any more: each shim that may have any has confirmed
// the one that it was told last. Only then may the node give its word that they do,
// upon which the leader takes it for gone without asking it.
//
// What was sent counts for nothing: a shim that hangs reads it late or never. A
// shim of a version that confirms nothing keeps the word from being given as long
// as it lives; a word that was given before stands, as its deadline only moves.
func Fenced(runs []Run) bool {
	for _, r := range runs {
		if !r.gone() && !r.confirmed() {
			return false
		}
	}
	return true
}

// confirmed reports whether the deadline that the shim was told last is in force there.
func (r Run) confirmed() bool {
	if r.Shim != Live || r.Report == nil || r.Pushed == nil {
		return false
	}
	told := r.Pushed.Deadline
	return told != 0 && told != fence.Never && r.Report.Deadline == told
}
