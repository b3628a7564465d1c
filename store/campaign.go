package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/record"
)

const (
	// retryDelay is the pause after a call that etcd did not answer, or a lost key.
	retryDelay = 200 * time.Millisecond
	// refusedDelay is the pause while etcd refuses all writes, which an operator has to fix.
	refusedDelay = 5 * time.Second
)

// errKeyLost means that a candidate's key was deleted while it waited.
var errKeyLost = errors.New("the candidate's key is gone")

// Campaign waits until this candidate leads and returns its leadership, or
// ctx's error. Candidates lead in the order of their keys' creation.
//
//	lease ─► key on it ─► oldest key of all? ──yes──► Leadership
//	  ▲                        │ no: wait for a deletion, read again
//	  └── key or lease gone ◄──┘
//
// Campaign returns only after a linearizable read has shown no older key and the
// candidate's own key, which was there all the time, has been written once more. A
// candidate that lost its lease or its key while it waited starts again with new
// ones. Time passes between that write and the leader's others, so every write must
// compare Leadership.Compare.
func (s *Store) Campaign(ctx context.Context, candidate record.Leader) (*Leadership, error) {
	for {
		l, err := s.candidacy(ctx, candidate)
		if err == nil {
			return l, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("campaign: %w", ctx.Err())
		case s.ctx.Err() != nil:
			return nil, fmt.Errorf("campaign: %w", s.ctx.Err())
		case !errors.Is(err, errKeyLost) && Refused(err):
			return nil, fmt.Errorf("campaign: %w", err)
		}
		s.cfg.Log.Warn().Err(err).Msg("candidacy lost, campaigning again")
		s.pauseAfter(ctx, err)
	}
}

// pauseAfter waits before a call that has failed is made again.
func (s *Store) pauseAfter(ctx context.Context, err error) {
	delay := retryDelay
	if Passes(err) {
		delay = refusedDelay
	}
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	case <-time.After(delay):
	}
}

// candidacy runs one candidacy, until it leads or is lost.
func (s *Store) candidacy(ctx context.Context, candidate record.Leader) (*Leadership, error) {
	sentAt := Boottime()
	lease, err := s.Grant(ctx, s.cfg.LeaderTTL)
	if err != nil {
		return nil, err
	}
	l := s.hold(ctx, lease, sentAt)
	if err = l.enter(ctx, candidate); err != nil {
		return nil, errors.Join(err, l.withdraw())
	}
	if err = l.await(ctx); err == nil {
		err = l.begin(ctx, candidate)
	}
	if err != nil {
		return nil, errors.Join(err, l.withdraw())
	}
	l.leads <- l.ModRevision
	return l, nil
}

// leaderKey returns the candidate's key. It contains the lease, so it is unique.
func leaderKey(lease int64) string { return record.LeaderPrefix + strconv.FormatInt(lease, 16) }

// enter writes the candidate's key. It is safe to repeat, since the key's name
// contains the lease.
func (l *Leadership) enter(ctx context.Context, candidate record.Leader) error {
	out := l.store.Commit(ctx, record.Txn{
		ID:   "candidate",
		If:   []record.Compare{record.Absent(l.Key)},
		Then: []record.Op{record.PutLeased(l.Key, candidate, l.lease)},
	})
	switch out.Result {
	case record.Applied:
		l.CreateRevision = out.Revision
		return nil
	case record.Conflict, record.Unknown:
		kv, exists, err := l.store.Get(ctx, l.Key)
		if err != nil || !exists {
			return errors.Join(errKeyLost, out.Err, err)
		}
		l.CreateRevision = kv.CreateRevision
		return nil
	}
	panic("store: commit answered " + out.Result.String())
}

// begin writes the key of a candidate whose turn has come once more, if the key was
// there all the time: a candidate whose key was deleted is in no other's way, so
// another one may lead. The key's new revision tells the term from the wait: etcd may
// be restored from a backup that was made while this candidate still waited, and brings
// back its predecessor and what that had granted. What this leader writes then lands
// nowhere.
func (l *Leadership) begin(ctx context.Context, candidate record.Leader) error {
	ctx, cancel := l.whileHeld(ctx)
	defer cancel()
	out := l.store.Commit(ctx, record.Txn{
		ID:   "lead",
		If:   []record.Compare{record.SameLife(l.Key, l.CreateRevision)},
		Then: []record.Op{record.PutLeased(l.Key, candidate, l.lease)},
	})
	if out.Result == record.Applied {
		l.ModRevision = out.Revision
		return nil
	}
	return errors.Join(errKeyLost, out.Err) // an answer that is lost costs a candidacy
}

// await waits until no candidate's key is older. It does not ask whether the own key is
// still there: begin does.
func (l *Leadership) await(ctx context.Context) error {
	ctx, cancel := l.whileHeld(ctx)
	defer cancel()
	for {
		first, revision, err := l.oldest(ctx)
		if err != nil || first {
			return err
		}
		if err := l.deletion(ctx, revision+1); err != nil {
			return err
		}
	}
}

// oldest reports whether no candidate's key is older, and at which revision.
func (l *Leadership) oldest(ctx context.Context) (first bool, revision int64, err error) {
	kvs, revision, err := l.store.Range(ctx, record.LeaderPrefix)
	if err != nil {
		return false, 0, err
	}
	first = true
	for _, kv := range kvs {
		first = first && kv.CreateRevision >= l.CreateRevision
	}
	return first, revision, nil
}

// deletion returns once a candidate's key has been deleted.
func (l *Leadership) deletion(ctx context.Context, from int64) error {
	w := l.store.Watch(ctx, from, record.LeaderPrefix)
	for batch := range w.C {
		for _, c := range batch.Changes {
			if c.Deleted {
				return w.Close()
			}
		}
	}
	if err := w.Err(); !errors.Is(err, record.ErrCompacted) {
		return err
	}
	return nil // a deletion may have been missed: read again
}
