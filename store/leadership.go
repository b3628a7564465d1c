package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Leadership is one term of one leader. Its token is (Key, ModRevision).
type Leadership struct {
	Key            string
	CreateRevision int64
	// ModRevision is when the key was written as the term began, after the keys of all
	// earlier leaders were gone: a backup that holds it holds all that those wrote.
	ModRevision int64

	store *Store
	lease int64
	wg    sync.WaitGroup // keeper, guard
	ctx   context.Context
	stop  context.CancelFunc

	until atomic.Int64 // on the clock, in nanoseconds: for so long the lease is certain

	lostOnce sync.Once
	lost     chan struct{}
	renewed  chan struct{} // the lease was renewed
	leads    chan int64    // the revision at which the key was seen as the oldest; holds one
}

// Compare is the condition of every write of this leader: its key is as it was
// written when the term began.
func (l *Leadership) Compare() record.Compare { return record.Unchanged(l.Key, l.ModRevision) }

// Certain reports whether the lease cannot have expired yet, and ends the term if it
// may have. Ask before each write: a process that was frozen learns it here before a
// timer can have told it.
func (l *Leadership) Certain() bool {
	if l.left() > 0 {
		return true
	}
	l.lose()
	return false
}

// left returns for how long the lease is certain.
func (l *Leadership) left() time.Duration { return time.Duration(l.until.Load()) - l.store.cfg.Clock() }

// Lost is closed when the term is over: the key is gone, or the lease was not
// renewed within its TTL, counted from the sending of the last renewal. The leader
// then stops at once. Lost makes this fast; Compare protects the records.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

// Resign ends the term: it deletes the key, and the next candidate leads. Call it
// after Lost too, to free the resources of the term. If etcd does not answer, the
// key expires with its lease, as the error says.
func (l *Leadership) Resign(ctx context.Context) error {
	l.release()
	if err := l.store.Revoke(ctx, l.lease); err != nil && !errors.Is(err, record.ErrLeaseNotFound) {
		return fmt.Errorf("resign: %w: the term ends within %v by itself", err, l.store.cfg.LeaderTTL)
	}
	return nil
}

// hold starts to renew a lease whose grant was requested at sentAt.
func (s *Store) hold(ctx context.Context, lease int64, sentAt time.Duration) *Leadership {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &Leadership{
		Key: leaderKey(lease), store: s, lease: lease, ctx: ctx, stop: cancel,
		lost: make(chan struct{}), renewed: make(chan struct{}), leads: make(chan int64, 1),
	}
	l.until.Store(int64(sentAt + s.cfg.LeaderTTL))
	detach := context.AfterFunc(s.ctx, cancel)
	l.wg.Go(l.keep)
	l.wg.Go(l.expire)
	l.wg.Go(l.guard)
	s.spawn(func() {
		l.wg.Wait()
		detach()
	})
	return l
}

// keep renews the lease until it is gone.
func (l *Leadership) keep() {
	defer l.lose()
	// Four attempts fit into the lease's time.
	_ = l.store.KeepLease(l.ctx, l.lease, l.store.cfg.LeaderTTL/4, func(sentAt time.Duration) {
		l.until.Store(int64(sentAt + l.store.cfg.LeaderTTL))
		select {
		case l.renewed <- struct{}{}:
		case <-l.ctx.Done():
		}
	})
}

// expire ends the term when the lease may have expired.
func (l *Leadership) expire() {
	defer l.lose()
	timer := time.NewTimer(l.left())
	defer timer.Stop()
	for {
		select {
		case <-l.renewed:
		case <-timer.C:
		case <-l.ctx.Done():
			return
		}
		// The timer's clock stops while the machine sleeps, so it only triggers the comparison.
		left := l.left()
		if left <= 0 {
			return
		}
		timer.Reset(left)
	}
}

// guard watches the leader's key, once it leads, and ends the term when the key goes.
func (l *Leadership) guard() {
	defer l.lose()
	var revision int64
	select {
	case revision = <-l.leads:
	case <-l.ctx.Done():
		return
	}
	for {
		if gone := l.watchKey(revision + 1); gone {
			return
		}
		// Changes were missed while etcd was away, or it was restored from a backup: read
		// whether the key is still as it was written when the term began.
		kv, at, err := l.own()
		if err != nil || kv.ModRevision != l.ModRevision {
			return
		}
		revision = at
	}
}

// own reads the leader's key, and the revision at which it was so; a key that is gone is empty.
func (l *Leadership) own() (record.KV, int64, error) {
	kvs, revision, err := l.store.Range(l.ctx, l.Key)
	for _, kv := range kvs {
		if kv.Key == l.Key {
			return kv, revision, err
		}
	}
	return record.KV{}, revision, err
}

// watchKey returns true when the key is gone or the term is over, and false when
// etcd has compacted the changes since the revision.
func (l *Leadership) watchKey(from int64) (gone bool) {
	w := l.store.Watch(l.ctx, from, l.Key)
	for batch := range w.C {
		for _, c := range batch.Changes {
			if c.Deleted && c.Key == l.Key {
				_ = w.Close() // the key is gone, with or without an error here
				return true
			}
		}
	}
	return !errors.Is(w.Err(), record.ErrCompacted)
}

// lose ends the term.
func (l *Leadership) lose() {
	l.lostOnce.Do(func() {
		close(l.lost)
		l.stop()
	})
}

// release ends the term and joins its goroutines.
func (l *Leadership) release() {
	l.lose()
	l.wg.Wait()
}

// withdraw ends a candidacy.
func (l *Leadership) withdraw() error {
	l.release()
	// The candidate's context may have ended; the key must not block others for a TTL.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.store.cfg.LeaderTTL)
	defer cancel()
	if err := l.store.Revoke(ctx, l.lease); err != nil && !errors.Is(err, record.ErrLeaseNotFound) {
		return err
	}
	return nil
}

// whileHeld bounds ctx by the candidacy.
func (l *Leadership) whileHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
