package coordinator

import (
	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/record"
)

// Event is something that Step takes in. The set is closed.
type Event interface{ event() }

// Loaded is a full listing of the records at a revision. The first event of a
// term; again after Effects.Reload, and when a watch had to begin anew.
type Loaded struct {
	KVs      []record.KV
	Revision int64
}

// Changed is what a watch has seen, in order.
type Changed struct{ Changes []record.Change }

// Tick says only that time has passed.
type Tick struct{}

// Outcome is what became of a transaction of Effects.Txns. Each gets one, sooner or later.
type Outcome struct{ record.Outcome }

// Decided answers Effects.Ask: the checked answer, or why there is none. Each question gets one.
type Decided struct {
	Output allocator.Output
	Err    error
}

func (Loaded) event()  {}
func (Changed) event() {}
func (Tick) event()    {}
func (Outcome) event() {}
func (Decided) event() {}
