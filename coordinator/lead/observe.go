package lead

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Observer is told what a candidate does, for those who watch how it does. Its
// methods are called from several goroutines, and must not block.
type Observer interface {
	// Leads is called at the beginning and the end of each term.
	Leads(bool)
	// Stepped tells how long the leader took to decide what follows from what it has heard.
	Stepped(took time.Duration)
	// Decided tells how long the policy took to answer, and why it did not.
	Decided(took time.Duration, err error)
	// Rescaled tells what a generation that runs now has cost.
	Rescaled(record.Rescale)
}

// unobserved stands for an Observer that was not given.
type unobserved struct{}

func (unobserved) Leads(bool)                   {}
func (unobserved) Stepped(time.Duration)        {}
func (unobserved) Decided(time.Duration, error) {}
func (unobserved) Rescaled(record.Rescale)      {}

// Window lets others look at what a leader sees. The leader itself counts, when
// it has nothing to decide: nothing that it owns is shared, and no caller waits for
// a lock. Make one with NewWindow.
type Window struct {
	open atomic.Bool // a leader is behind it
	ask  chan chan<- view
}

// view is what was seen through a window.
type view struct {
	census record.Census
	known  bool
}

// NewWindow makes a window for one candidate.
func NewWindow() *Window { return &Window{ask: make(chan chan<- view)} }

// Census counts what the leader knows of; false if this candidate does not lead,
// has not read the records yet, or does not come to it before the context ends.
func (w *Window) Census(ctx context.Context) (record.Census, bool) {
	if !w.open.Load() {
		return record.Census{}, false
	}
	seen := make(chan view, 1)
	select {
	case w.ask <- seen:
	case <-ctx.Done():
		return record.Census{}, false
	}
	v := <-seen // the leader has taken it, and answers before it does anything else
	return v.census, v.known
}

// asked is where who looks through the window asks; nil, which blocks, where there is none.
func (w *Window) asked() <-chan chan<- view {
	if w == nil {
		return nil
	}
	return w.ask
}

func (w *Window) setOpen(open bool) {
	if w != nil {
		w.open.Store(open)
	}
}
