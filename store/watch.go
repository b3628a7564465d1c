package store

import (
	"context"

	"github.com/bellows-ml/bellows/record"
)

// Batch is a delivery of a watch: changes in revision order, whole transactions
// only. The changes of one transaction are in the order of the prefixes, and below
// one prefix in the transaction's order. Everything up to and including Revision
// has been delivered with this batch; a batch may have no changes.
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

// Watch delivers the changes from a revision on (one more than a listing's) of the
// keys below the prefixes. If etcd goes away or stops answering, the watch opens a
// new stream after its last delivery, invisibly. It ends with ctx or the store, when
// etcd has compacted the missing revisions (record.ErrCompacted: list again), or
// when etcd refuses it.
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

// Close ends the watch, waits for it and returns nil, or the error with which it had ended before.
func (w *Watch) Close() error {
	w.cancel()
	<-w.done
	return ignoreCanceled(w.err)
}
