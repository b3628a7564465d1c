package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/store"
)

// ErrNameInUse means that another agent keeps this node's name alive.
var ErrNameInUse = errors.New("node name is in use")

// presence is the node's place in the cluster, as its life last reported it.
type presence struct {
	aliveRev int64  // CreateRevision of the alive key; 0 = not in the cluster
	told     uint64 // number of the event that told of this life; 0 = a predecessor began it
	lease    int64
	deadline int64         // by the last renewal of this lease, nanoseconds of CLOCK_BOOTTIME
	renewed  time.Duration // when the last renewal that succeeded was sent, on the same clock
}

// life keeps the node in the cluster: a lease, renewed, and the alive key on it.
//
//	kept lease ──renew──► lease ──claim──► alive ──renew, renew, …──► lost ─┐
//	    none, or gone ──grant──► ▲                                          │
//	                             └──────────────── a new life ◄─────────────┘
type life struct {
	store *store.Store
	dir   *dataDir
	alive record.Alive
	node  string // the alive key
	cfg   Config
	log   zerolog.Logger
	// report is called with each change, from one goroutine.
	report func(presence)
	// abandon ends the life with this CreateRevision: its key was deleted.
	abandon chan int64
}

// run goes from life to life until the context ends, and returns an error only
// when the node cannot be in the cluster at all.
func (l *life) run(ctx context.Context) error {
	for {
		err := l.live(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to end
		}
		if err != nil {
			return err
		}
	}
}

// live is one life.
func (l *life) live(ctx context.Context) error {
	p, granted, err := l.hold(ctx)
	if err != nil {
		return err
	}
	if p.aliveRev, p.told, err = l.claim(ctx, p.lease); err != nil {
		if errors.Is(err, record.ErrLeaseNotFound) {
			l.log.Warn().Msg("the lease ended before this node was in the cluster; getting another")
			return l.dir.dropLease()
		}
		if granted && errors.Is(err, ErrNameInUse) {
			err = errors.Join(err, l.store.Revoke(ctx, p.lease), l.dir.dropLease())
		}
		return err
	}
	l.log.Info().Int64("alive_rev", p.aliveRev).Str("lease", fmt.Sprintf("%x", p.lease)).Bool("new_lease", granted).Msg("in the cluster")
	l.report(p)
	err = l.keep(ctx, p)
	if ctx.Err() != nil {
		return ctx.Err() // the lease is for a successor
	}
	l.report(presence{})
	l.log.Warn().Err(err).Msg("no longer in the cluster; entering it again")
	if errors.Is(err, errAbandoned) {
		if err := l.store.Revoke(ctx, p.lease); err != nil {
			l.log.Warn().Err(err).Msg("cannot end the lease; it will expire")
		}
	}
	return l.dir.dropLease()
}

// errAbandoned says that a life has ended before its lease.
var errAbandoned = errors.New("the alive key was deleted")

// keep renews the lease until it is gone, the context ends, or the life is abandoned.
func (l *life) keep(ctx context.Context, p presence) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		for {
			select {
			case rev := <-l.abandon:
				if rev == p.aliveRev { // else it was meant for an earlier life
					cancel(errAbandoned)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	err := l.store.KeepLease(ctx, p.lease, l.cfg.every(), func(sentAt time.Duration) {
		p.renewed, p.deadline = sentAt, l.deadline(sentAt)
		l.report(p)
	})
	if errors.Is(context.Cause(ctx), errAbandoned) {
		return errAbandoned
	}
	return err
}

func (l *life) deadline(sentAt time.Duration) int64 {
	return fence.Deadline(int64(sentAt), l.cfg.TTL, l.cfg.margin())
}

// renewKept renews the lease that a predecessor has kept, if there is one: the
// first thing that an agent does, because workers may hang on it.
func renewKept(ctx context.Context, s *store.Store, dir *dataDir, log zerolog.Logger) error {
	kept, err := dir.lease()
	if err != nil || kept == 0 {
		return err
	}
	return loop.Persist(ctx, log, "renew the lease", func() (bool, error) {
		_, err := s.Renew(ctx, kept)
		if errors.Is(err, record.ErrLeaseNotFound) {
			return true, nil
		}
		return false, err
	})
}

// hold renews the lease that was kept, or gets a new one and keeps that.
func (l *life) hold(ctx context.Context) (p presence, granted bool, err error) {
	kept, err := l.dir.lease()
	if err != nil {
		return presence{}, false, fmt.Errorf("read the kept lease: %w", err)
	}
	if kept != 0 {
		err = l.persist(ctx, "renew the lease", func() error {
			sentAt, errRenew := l.store.Renew(ctx, kept)
			p = presence{lease: kept, renewed: sentAt, deadline: l.deadline(sentAt)}
			if errors.Is(errRenew, record.ErrLeaseNotFound) {
				p = presence{}
				return nil
			}
			return errRenew
		})
		if err != nil || p.lease != 0 {
			return p, false, err
		}
	}
	err = l.persist(ctx, "get a lease", func() error {
		sentAt := store.Boottime()
		lease, errGrant := l.store.Grant(ctx, l.cfg.TTL)
		p = presence{lease: lease, renewed: sentAt, deadline: l.deadline(sentAt)}
		return errGrant
	})
	if err == nil {
		err = loop.Persist(ctx, l.log, "keep the lease", func() (bool, error) {
			errKeep := l.dir.keepLease(p.lease)
			return precheck.FailureOf(errKeep) != record.NoSpace, errKeep // people make room; what is in the way otherwise stays there
		})
	}
	return p, true, err
}

// claim makes the alive key ours and returns its CreateRevision, and the number
// of the event that tells so; 0 where it was ours before. The error is
// record.ErrLeaseNotFound where the lease has ended meanwhile: nothing renews it yet.
func (l *life) claim(ctx context.Context, lease int64) (rev int64, told uint64, err error) {
	err = l.persist(ctx, "enter the cluster", func() error {
		var errClaim error
		rev, told, errClaim = l.claimOnce(ctx, lease)
		return errClaim
	})
	return rev, told, err
}

func (l *life) claimOnce(ctx context.Context, lease int64) (rev int64, told uint64, err error) {
	kv, exists, err := l.store.Get(ctx, l.node)
	if err != nil {
		return 0, 0, err
	}
	txn := record.Txn{ID: "alive", Then: []record.Op{record.PutLeased(l.node, l.alive, lease)}}
	switch {
	case !exists:
		txn.If = []record.Compare{record.Absent(l.node)}
		last, err := lastTold(ctx, l.store, l.cfg.Node)
		if err != nil {
			return 0, 0, err
		}
		told = last + 1
		txn.Then = append(txn.Then, tell(l.cfg.Node, told, record.Event{
			Kind: record.NodeJoined, Why: reason.Of(reason.New(reason.NodeAt, "addr", l.alive.Addr, "version", l.alive.Version)),
		}))
	case kv.Lease == lease:
		txn.If = []record.Compare{record.SameLife(l.node, kv.CreateRevision)}
	default:
		return 0, 0, l.inUse(kv)
	}
	out := l.store.Commit(ctx, txn)
	switch out.Result {
	case record.Applied:
		if exists {
			return kv.CreateRevision, 0, nil
		}
		return out.Revision, told, nil
	case record.Conflict, record.Unknown:
		return 0, 0, errors.Join(errors.New("the alive key has changed meanwhile"), out.Err)
	}
	panic("host: commit answered " + out.Result.String())
}

func (l *life) inUse(kv record.KV) error {
	var other record.Alive
	if err := json.Unmarshal(kv.Value, &other); err != nil {
		return fmt.Errorf("read %s: %w", kv.Key, err)
	}
	return fmt.Errorf("%w: node %s is alive at %s (api %s, incarnation %s): give this agent another --node, or stop that one and wait %v for its lease to end",
		ErrNameInUse, l.cfg.Node, other.Addr, other.API, other.Incarnation, l.cfg.TTL)
}

// persist calls f until it succeeds, the context ends, the node's name turns out
// to be another's, or the lease has ended. It says what is wrong when that changes, and now and then.
func (l *life) persist(ctx context.Context, what string, f func() error) error {
	return loop.Persist(ctx, l.log, what, func() (bool, error) {
		err := f()
		return errors.Is(err, ErrNameInUse) || errors.Is(err, record.ErrLeaseNotFound), err
	})
}

// tell is the operation that writes an event of a node's own, a part of the
// transaction that makes it true.
func tell(node cluster.NodeID, seq uint64, e record.Event) record.Op {
	e.Seq, e.At, e.Node = seq, time.Now().UTC(), node
	return record.Put(record.NodeEventKey(node, seq), e)
}

// lastTold reads the number of a node's newest event, 0 if it has told none.
func lastTold(ctx context.Context, s *store.Store, node cluster.NodeID) (uint64, error) {
	kvs, revision, err := s.Range(ctx, record.NodeEventsPrefix(node))
	if err != nil {
		return 0, err
	}
	// One that this version cannot read is written over in its turn.
	m, _ := record.NewMirror(kvs, revision)
	return record.Newest(m.Node(node).Told).Value.Seq, nil
}
