package lead

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

const (
	// reloadEvery spaces listings: a transaction that keeps being refused must
	// not turn into a storm of reads.
	reloadEvery = 200 * time.Millisecond
	// refreshEvery is how often everything is read anew without need: it bounds
	// what the mirror remembers of deleted keys, and mends whatever was missed.
	refreshEvery = 30 * time.Minute
	// commitsAtOnce bounds the transactions under way; the others wait for their turn.
	commitsAtOnce = 32
	// heardAtOnce bounds what one Step takes in, so that Lost is looked at in between.
	heardAtOnce = 4 * commitsAtOnce
)

// term is one leadership, run by one goroutine.
type term struct {
	cfg        Config
	core       *coordinator.Coordinator
	leadership *store.Leadership
	commits    chan struct{}          // a slot for each commit under way
	events     chan coordinator.Event // from the goroutines beside
	beside     sync.WaitGroup

	watch   *store.Watch // nil until listed
	listing bool         // one is under way
	again   bool         // and another is wanted after it
	wake    *time.Timer
}

func newTerm(cfg Config, l *store.Leadership) *term {
	return &term{
		cfg: cfg,
		core: coordinator.New(coordinator.Config{
			Token: coordinator.Token{Key: l.Key, Mod: l.ModRevision}, Secret: rand.Text(),
			Interval: cfg.Interval, Timing: cfg.Timing, MaxTxnOps: cfg.MaxTxnOps, KeepCheckpoints: cfg.KeepCheckpoints, Migrations: cfg.Migrations, Limits: cfg.Limits, NoNewPrivs: cfg.NoNewPrivs,
		}.Deciding(cfg.Policy)),
		leadership: l,
		commits:    make(chan struct{}, commitsAtOnce),
		events:     make(chan coordinator.Event),
	}
}

// run leads until the leadership is lost or ctx ends.
func (t *term) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer t.close()
	defer cancel() // before close waits for what runs beside
	t.wake = time.NewTimer(0)
	t.wake.Stop()
	defer t.wake.Stop()
	refresh := time.NewTicker(refreshEvery)
	defer refresh.Stop()
	t.list(ctx, 0)
	for {
		// Lost goes first: what else has come in is no longer ours to act on.
		select {
		case <-t.leadership.Lost():
			return
		case <-ctx.Done():
			return
		default:
		}
		var heard []coordinator.Event
		select {
		case <-t.leadership.Lost():
			return
		case <-ctx.Done():
			return
		case batch, ok := <-t.changes():
			heard = t.changed(ctx, batch, ok)
		case ev := <-t.events:
			heard = t.happened(ctx, ev)
		case <-t.wake.C:
			heard = []coordinator.Event{coordinator.Tick{}}
		case <-refresh.C:
			t.list(ctx, 0)
		case seen := <-t.cfg.Window.asked():
			census, known := t.core.Census(time.Now())
			seen <- view{census, known}
		}
		if heard = t.more(ctx, heard); len(heard) > 0 {
			t.step(ctx, heard)
		}
	}
}

// more adds what else has come in: many transactions are under way at once, and
// each Step looks at the whole cluster.
func (t *term) more(ctx context.Context, heard []coordinator.Event) []coordinator.Event {
	for len(heard) < heardAtOnce {
		select {
		case batch, ok := <-t.changes():
			heard = append(heard, t.changed(ctx, batch, ok)...)
		case ev := <-t.events:
			heard = append(heard, t.happened(ctx, ev)...)
		default:
			return heard
		}
	}
	return heard
}

// close joins everything that runs beside the term.
func (t *term) close() {
	t.closeWatch()
	t.beside.Wait()
}

func (t *term) closeWatch() {
	if t.watch != nil {
		_ = t.watch.Close() // another listing follows, or nothing does: why it may have ended is of no interest
		t.watch = nil
	}
}

// changes is where the watch delivers; nil, which blocks, while there is none.
func (t *term) changes() <-chan store.Batch {
	if t.watch == nil {
		return nil
	}
	return t.watch.C
}

// changed takes in what the watch has brought.
func (t *term) changed(ctx context.Context, batch store.Batch, ok bool) []coordinator.Event {
	if !ok { // compacted, or refused: only a listing helps
		t.cfg.Log.Warn().Err(t.watch.Err()).Msg("watch ended, listing again")
		t.watch = nil
		t.list(ctx, reloadEvery)
		return nil
	}
	if len(batch.Changes) == 0 {
		return nil
	}
	return []coordinator.Event{coordinator.Changed{Changes: batch.Changes}}
}

// happened takes in what a goroutine beside has brought about.
func (t *term) happened(ctx context.Context, ev coordinator.Event) []coordinator.Event {
	if loaded, ok := ev.(coordinator.Loaded); ok {
		t.listing = false
		t.closeWatch() // what it has delivered is not all in the listing
		t.watch = t.cfg.Store.Watch(ctx, loaded.Revision+1, record.Root)
		if t.again {
			t.again = false
			t.list(ctx, reloadEvery)
		}
	}
	return []coordinator.Event{ev}
}

// step lets the coordinator decide, and does what it asks for.
func (t *term) step(ctx context.Context, heard []coordinator.Event) {
	began := time.Now()
	fx := t.core.Step(began, heard...)
	t.cfg.Observer.Stepped(time.Since(began))
	for _, n := range fx.Notes {
		t.log(n)
		if n.Rescale != nil {
			t.cfg.Observer.Rescaled(*n.Rescale)
		}
	}
	for _, txn := range fx.Txns {
		t.commit(ctx, txn)
	}
	if fx.Ask != nil {
		t.ask(ctx, *fx.Ask)
	}
	if fx.Reload {
		t.list(ctx, reloadEvery)
	}
	t.wake.Stop()
	if !fx.WakeAt.IsZero() {
		t.wake.Reset(time.Until(fx.WakeAt))
	}
}

// commit executes a transaction beside the term, while its lease is certain: what was
// decided before the process, or its machine, was frozen is not sent after that.
func (t *term) commit(ctx context.Context, txn record.Txn) {
	t.beside.Go(func() {
		select {
		case t.commits <- struct{}{}:
			defer func() { <-t.commits }()
		case <-ctx.Done():
			return
		}
		if !t.leadership.Certain() {
			return // the term is over, which it may learn here only
		}
		out := t.cfg.Store.Commit(ctx, txn)
		t.tell(ctx, coordinator.Outcome{Outcome: out})
	})
}

// ask lets the policy answer beside the term. It cannot be interrupted, so the
// end of a term waits for it.
func (t *term) ask(ctx context.Context, in allocator.Input) {
	t.beside.Go(func() {
		began := time.Now()
		out, err := allocator.Run(t.cfg.Policy, in)
		t.cfg.Observer.Decided(time.Since(began), err)
		t.tell(ctx, coordinator.Decided{Output: out, Err: err})
	})
}

// list reads all records beside the term, as often as it takes. A listing
// wanted while another is under way begins after that one.
func (t *term) list(ctx context.Context, after time.Duration) {
	if t.listing {
		t.again = true
		return
	}
	t.listing = true
	t.beside.Go(func() {
		for {
			select {
			case <-time.After(after):
			case <-ctx.Done():
				return
			}
			kvs, revision, err := t.cfg.Store.Range(ctx, record.Root)
			if err == nil {
				t.tell(ctx, coordinator.Loaded{KVs: kvs, Revision: revision})
				return
			}
			if ctx.Err() == nil {
				t.cfg.Log.Warn().Err(err).Msg("list records")
			}
			after = reloadEvery
		}
	})
}

// tell hands an event to the term, if it still goes on.
func (t *term) tell(ctx context.Context, ev coordinator.Event) {
	select {
	case t.events <- ev:
	case <-ctx.Done():
	}
}

// log writes a note: one Info line for each change of phase.
func (t *term) log(n coordinator.Note) {
	e := t.cfg.Log.Debug()
	switch {
	case n.Warn:
		e = t.cfg.Log.Warn()
	case n.Phase != "":
		e = t.cfg.Log.Info().Str("phase", string(n.Phase))
	}
	if n.Job != "" {
		e = e.Str("job", string(n.Job)).Uint64("gen", uint64(n.Gen))
	}
	if n.Node != "" {
		e = e.Str("node", string(n.Node))
	}
	e.Msg(n.Message())
}
