// Package loop has one goroutine own the state of a node's agent, so that no part of it needs a lock.
//
// Whatever may take time runs beside the loop, in a goroutine of its own: it sees only what it was given, and comes back with
// a function that the loop calls. A lane is what only one such piece of work at a time may touch. All that runs beside is
// joined by Wait.
//
//	l := loop.New(ctx, log)
//	l.Beside(loop.Lane{What: "devices"}, func(ctx context.Context) func() {
//		found, err := look(ctx)
//		return func() { take(found, err) }
//	})
//	for event := range l.Events() { … }
//
// Decision: ADR 62.
package loop

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/record"
)

// backlog is how many events may wait for the loop. It only evens out bursts:
// a sender waits while it is full.
const backlog = 256

// Loop hands events to the goroutine that owns the state. Its methods may be called from any goroutine, but for Beside,
// Busy and Drain, which are the owner's.
type Loop struct {
	Log zerolog.Logger

	ctx    context.Context //nolint:containedctx // lives as long as the loop: the parent of all that runs beside
	events chan func()
	wg     sync.WaitGroup // everything that runs beside
	lanes  map[Lane]bool  // what is in progress
}

// New makes a loop that lives as long as ctx.
func New(ctx context.Context, log zerolog.Logger) *Loop {
	return &Loop{Log: log, ctx: ctx, events: make(chan func(), backlog), lanes: map[Lane]bool{}}
}

// Lane is what only one piece of work at a time may touch.
type Lane struct {
	Of   record.JobGen // zero for the node's own
	What agent.Lane
}

// Context is that of all that runs beside. It ends with the loop.
func (l *Loop) Context() context.Context { return l.ctx }

// Events are what the owner has to call.
func (l *Loop) Events() <-chan func() { return l.events }

// Post hands an event to the owner. Events posted after the loop's end are dropped.
func (l *Loop) Post(event func()) {
	select {
	case l.events <- event:
	case <-l.ctx.Done():
	}
}

// Drain takes in the events that are waiting, so that one step serves all of them.
func (l *Loop) Drain() {
	for range backlog {
		select {
		case event := <-l.events:
			event()
		default:
			return
		}
	}
}

// Beside runs f in a goroutine of its own; the owner calls what it returns once it
// has ended, and the lane is free again then.
func (l *Loop) Beside(at Lane, f func(ctx context.Context) (then func())) {
	l.lanes[at] = true
	l.wg.Go(func() {
		then := f(l.ctx)
		l.Post(func() {
			delete(l.lanes, at)
			then()
		})
	})
}

// Busy reports whether work is in progress in a lane.
func (l *Loop) Busy(at Lane) bool { return l.lanes[at] }

// Go runs f beside, in no lane.
func (l *Loop) Go(f func()) { l.wg.Go(f) }

// Wait returns once nothing runs beside any more. The context has ended before.
func (l *Loop) Wait() { l.wg.Wait() }

// Logger names a generation in every line.
func (l *Loop) Logger(jg record.JobGen) zerolog.Logger {
	return l.Log.With().Str("job", string(jg.Job)).Uint64("gen", uint64(jg.Generation)).Logger()
}
