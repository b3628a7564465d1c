package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// Effects is what follows from one Step, of one event or several.
type Effects struct {
	// Txns are to be committed, in any order and beside each other; each one's
	// outcome comes back as an Outcome.
	Txns []record.Txn
	// Ask is a question for the policy, nil if there is none. Until its Decided
	// comes back there is no other. Its answer is re-checked against what has changed.
	Ask *allocator.Input
	// Reload asks for a listing that is begun after this, as a Loaded.
	Reload bool
	// WakeAt is when the next Tick is due at the latest; zero = no need.
	WakeAt time.Time
	Notes  []Note
}

// Note is one line for the log.
type Note struct {
	Warn  bool // a person should look at it
	Job   cluster.JobID
	Gen   cluster.Generation
	Node  cluster.NodeID
	Phase cluster.Phase // set once for each change of phase, when it has been recorded
	Text  string        // what was done, for the log alone
	Why   reason.Reason // why, for the log and its event
	// Rescale is what a generation that runs now has cost, once it is recorded; else nil.
	Rescale *record.Rescale
}

// Message is the line for the log; empty if there is nothing to log.
func (n Note) Message() string {
	if n.Text != "" {
		return n.Text
	}
	return n.Why.String()
}
