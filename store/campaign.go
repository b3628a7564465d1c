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
	// candidacyDelay spaces the attempts of a candidate that loses its candidacy.
	candidacyDelay = 200 * time.Millisecond
	// refusedDelay does the same while etcd takes nothing from anybody, which people have to mend.
	refusedDelay = 5 * time.Second
)

// errOvertaken means that a candidate's key went while it waited.
var errOvertaken = errors.New("the candidate's key is gone")

// Campaign waits until this candidate leads and returns its leadership, or
// ctx's error. Candidates lead in the order in which they came.
//
//	lease ─► key on it ─► oldest key of all? ──yes──► Leadership
//	  ▲                        │ no: wait for a deletion, look again
//	  └── key or lease gone ◄──┘
//
// Leadership is returned only after a linearizable read has seen the
// candidate's own key as the oldest. A candidate whose lease was lost while it
// waited never leads by default; it stands again with a new one. That etcd's
// reads and the leadership's writes lie apart in time does no harm as long as
// every write compares Leadership.Compare.
func (s *Store) Campaign(ctx context.Context, candidate record.Leader) (*Leadership, error) {
	for {
		l, err := s.stand(ctx, candidate)
		if err == nil {
			return l, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("campaign: %w", ctx.Err())
		case s.ctx.Err() != nil:
			return nil, fmt.Errorf("campaign: %w", s.ctx.Err())
		case !errors.Is(err, errOvertaken) && refused(err):
			return nil, fmt.Errorf("campaign: %w", err)
		}
		s.cfg.Log.Warn().Err(err).Msg("candidacy lost, standing again")
		delay := candidacyDelay
		if Passes(err) {
			delay = refusedDelay
		}
		select {
		case <-ctx.Done():
		case <-s.ctx.Done():
		case <-time.After(delay):
		}
	}
}

// stand runs one candidacy, until it leads or is lost.
func (s *Store) stand(ctx context.Context, candidate record.Leader) (*Leadership, error) {
	sentAt := Boottime()
	lease, err := s.Grant(ctx, s.cfg.LeaderTTL)
	if err != nil {
		return nil, err
	}
	l := s.hold(ctx, lease, sentAt)
	if err = l.enter(ctx, candidate); err != nil {
		return nil, errors.Join(err, l.withdraw())
	}
	revision, err := l.await(ctx)
	if err != nil {
		return nil, errors.Join(err, l.withdraw())
	}
	l.leads <- revision
	return l, nil
}

// leaderKey is the candidate's key: named for its lease, so that nobody else can mean it.
func leaderKey(lease int64) string { return record.LeaderPrefix + strconv.FormatInt(lease, 16) }

// enter writes the candidate's key. Repeating it does no harm: whose the key
// is, the lease in its name says.
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
			return errors.Join(errOvertaken, out.Err, err)
		}
		l.CreateRevision = kv.CreateRevision
		return nil
	}
	panic("store: commit answered " + out.Result.String())
}

// await returns when the candidate's key is the oldest, and at which revision it was so.
func (l *Leadership) await(ctx context.Context) (int64, error) {
	ctx, cancel := l.whileHeld(ctx)
	defer cancel()
	for {
		first, revision, err := l.oldest(ctx)
		if err != nil || first {
			return revision, err
		}
		if err := l.deletion(ctx, revision+1); err != nil {
			return 0, err
		}
	}
}

// oldest reports whether the candidate's key is the oldest, and at which revision it was.
func (l *Leadership) oldest(ctx context.Context) (first bool, revision int64, err error) {
	kvs, revision, err := l.store.Range(ctx, record.LeaderPrefix)
	if err != nil {
		return false, 0, err
	}
	present := false
	first = true
	for _, kv := range kvs {
		present = present || kv.Key == l.Key && kv.CreateRevision == l.CreateRevision
		first = first && kv.CreateRevision >= l.CreateRevision
	}
	if !present {
		return false, 0, errOvertaken
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
	return nil // something was missed: look again
}
