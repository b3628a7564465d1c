package host

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// eventBacklog is how many events may wait for the loop. It only evens out bursts:
// a sender waits while it is full.
const eventBacklog = 256

// shared is what all parts of the agent use. The agent's loop is one goroutine,
// and it alone reads and writes the state of all parts: no part needs a lock. Work
// that may take time runs in goroutines of its own (beside); these see only what
// they were given, and come back with a function that the loop calls (post).
// The methods of this type may be called from any goroutine, but for beside.
type shared struct {
	cfg   Config
	log   zerolog.Logger
	store *store.Store
	data  *dataDir

	ctx    context.Context //nolint:containedctx // lives as long as the loop: the parent of all that runs beside
	events chan func()
	wg     sync.WaitGroup // everything that runs beside
	lanes  map[lane]bool  // what is in progress; the loop's

	records *records // the loop's
}

func newShared(ctx context.Context, cfg Config, s *store.Store, data *dataDir) *shared {
	return &shared{
		cfg: cfg, log: cfg.Log, store: s, data: data, ctx: ctx,
		events: make(chan func(), eventBacklog), lanes: map[lane]bool{}, records: newRecords(cfg.Node, cfg.Log),
	}
}

// lane is what only one action at a time may touch.
type lane struct {
	of   record.JobGen // zero for the node's own
	what agent.Lane
}

// post hands an event to the loop. Events posted after the loop's end are dropped.
func (sh *shared) post(event func()) {
	select {
	case sh.events <- event:
	case <-sh.ctx.Done():
	}
}

// drain takes in the events that are waiting, so that one step serves all of them.
func (sh *shared) drain() {
	for range eventBacklog {
		select {
		case event := <-sh.events:
			event()
		default:
			return
		}
	}
}

// beside runs f in a goroutine of its own; the loop calls what it returns once it
// has ended, and the lane is free again then. Only the loop may call it.
func (sh *shared) beside(at lane, f func(ctx context.Context) (then func())) {
	sh.lanes[at] = true
	sh.wg.Go(func() {
		then := f(sh.ctx)
		sh.post(func() {
			delete(sh.lanes, at)
			then()
		})
	})
}

// logger names a generation in every line.
func (sh *shared) logger(jg record.JobGen) zerolog.Logger {
	return sh.log.With().Str("job", string(jg.Job)).Uint64("gen", uint64(jg.Generation)).Logger()
}

// leads reports whether rank 0 of a world is on this node.
func (sh *shared) leads(w cluster.World) bool {
	return len(w.Members) > 0 && w.Members[0].Node == sh.cfg.Node
}

// generationOf is a short form for a pair of names.
func generationOf(j cluster.JobID, g cluster.Generation) record.JobGen {
	return record.JobGen{Job: j, Generation: g}
}
