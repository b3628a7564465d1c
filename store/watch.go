package store

import (
	"context"

	"github.com/bellows-ml/bellows/record"
)

// Batch is what a watch delivers: changes in revision order, whole
// transactions only; those of one transaction in the order of the prefixes,
// below one prefix as the transaction had them. Everything up to and including Revision has then been
// delivered; a batch without changes says just that.
type Batch struct {
	Changes  []record.Change
	Revision int64
}

// Watch is a running watch. Read C until it is closed, or call Close.
type Watch struct {
	C <-chan Batch

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Watch delivers what happens from a revision on (the one after a listing's)
// to the keys that begin with any of the prefixes. Where etcd goes away or
// falls silent it begins anew, unseen, behind what it has delivered. It ends
// with ctx or the store, when etcd has compacted what is missing
// (record.ErrCompacted: list again), or when etcd refuses it.
func (s *Store) Watch(ctx context.Context, from int64, prefixes ...string) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	c := make(chan Batch)
	w := &Watch{C: c, cancel: cancel, done: make(chan struct{})}
	m := &merge{store: s, out: c, prefixes: disjoint(prefixes), next: max(from, 1)}
	s.spawn(func() {
		defer close(w.done)
		defer close(c)
		defer stop()
		defer cancel()
		w.err = m.run(ctx)
	})
	return w
}

// Err returns why the watch has ended. Call it once C is closed.
func (w *Watch) Err() error {
	<-w.done
	return w.err
}

// Close ends the watch, waits for it and returns nil, or why it had ended before.
func (w *Watch) Close() error {
	w.cancel()
	<-w.done
	return ignoreCanceled(w.err)
}
