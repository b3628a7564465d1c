package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Leadership is one term of one leader. Its token is (Key, CreateRevision).
type Leadership struct {
	Key            string
	CreateRevision int64

	store *Store
	lease int64
	wg    sync.WaitGroup // keeper, guard
	ctx   context.Context
	stop  context.CancelFunc

	lostOnce sync.Once
	lost     chan struct{}
	renewed  chan time.Duration // when the last renewal of the lease was sent
	leads    chan int64         // the revision at which the key was seen as the oldest; holds one
}

// Compare is the condition of every write of this leader: its key has existed since the term began.
func (l *Leadership) Compare() record.Compare { return record.SameLife(l.Key, l.CreateRevision) }

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
		lost: make(chan struct{}), renewed: make(chan time.Duration), leads: make(chan int64, 1),
	}
	detach := context.AfterFunc(s.ctx, cancel)
	l.wg.Go(l.keep)
	l.wg.Go(func() { l.expire(sentAt) })
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
		select {
		case l.renewed <- sentAt:
		case <-l.ctx.Done():
		}
	})
}

// expire ends the term when the lease may have expired.
func (l *Leadership) expire(sentAt time.Duration) {
	defer l.lose()
	ttl := l.store.cfg.LeaderTTL
	timer := time.NewTimer(sentAt + ttl - Boottime())
	defer timer.Stop()
	for {
		select {
		case sentAt = <-l.renewed:
		case <-timer.C:
		case <-l.ctx.Done():
			return
		}
		// The timer's clock stops while the machine sleeps, so it only triggers the comparison.
		left := sentAt + ttl - Boottime()
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
		// Changes were missed while etcd was away: read whether the key still exists.
		var err error
		if _, revision, err = l.oldest(l.ctx); err != nil {
			return
		}
	}
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
