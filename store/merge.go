package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/record"
)

const (
	// probes is how often a watch requests progress within Config.StallAfter.
	probes = 3
	// reopenDelay is the pause between attempts to open a stream while etcd is away.
	reopenDelay = 200 * time.Millisecond
	// mergeRetry is the interval of progress requests while changes wait: etcd does
	// not answer while one of the watches still catches up.
	mergeRetry = 50 * time.Millisecond
)

var (
	errStalled = errors.New("no answer")
	errClosed  = errors.New("etcd's client closed the watch")
	errEarly   = errors.New("the revision before the first one wanted is compacted")
)

// merge merges the watches of several prefixes into one stream in revision order.
//
// etcd guarantees the order within one prefix only. So a change waits until every
// prefix is known to have reached its revision; with more than one prefix that
// takes a progress request, one round trip per batch.
type merge struct {
	store    *Store
	out      chan<- Batch
	prefixes []string
	next     int64 // the first revision not delivered yet
	// compacted is the last revision at which etcd reported a compaction; 0 = none.
	compacted int64

	watcher clientv3.Watcher
	open    int     // forwarders that have not ended
	reached []int64 // by prefix: everything up to here has arrived
	waiting []pending
	asked   time.Time // when the oldest unanswered progress request was sent; zero: none
}

// pending is a change that waits for the other prefixes.
type pending struct {
	prefix int
	record.Change
}

// arrival is a response to the watch of one prefix.
type arrival struct {
	prefix   int
	response clientv3.WatchResponse
	open     bool
}

// run opens one stream after the other until the watch ends.
func (m *merge) run(ctx context.Context) error {
	if len(m.prefixes) == 0 {
		return errors.New("watch nothing: give a prefix")
	}
	for {
		var err error
		if ctx.Err() == nil {
			err = m.stream(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("watch %s: %w", strings.Join(m.prefixes, " and "), ctx.Err())
		case errors.Is(err, errEarly):
			continue
		case errors.Is(err, record.ErrCompacted), Refused(err):
			return fmt.Errorf("watch %s from revision %d: %w", strings.Join(m.prefixes, " and "), m.next, err)
		}
		m.store.cfg.Log.Warn().Err(err).Strs("prefixes", m.prefixes).Int64("revision", m.next).Msg("watch interrupted, opening it again")
		select {
		case <-ctx.Done():
		case <-time.After(reopenDelay):
		}
	}
}

// stream watches all prefixes on one gRPC stream of its own until it breaks.
func (m *merge) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	m.watcher = clientv3.NewWatcher(m.store.client)
	m.waiting, m.asked = nil, time.Time{}
	m.open = len(m.prefixes)
	m.reached = slices.Repeat([]int64{m.next - 1}, len(m.prefixes))
	arrivals := make(chan arrival)
	for i := range m.prefixes {
		go m.forward(ctx, i, arrivals)
	}
	err := m.serve(ctx, arrivals)
	cancel()
	// The error of Close adds nothing to err.
	_ = m.watcher.Close()
	for m.open > 0 {
		if a := <-arrivals; !a.open {
			m.open--
		}
	}
	return err
}

// forward passes on the responses for one prefix, and finally one with open = false, until which stream reads.
func (m *merge) forward(ctx context.Context, prefix int, arrivals chan<- arrival) {
	responses := m.watcher.Watch(ctx, m.prefixes[prefix],
		clientv3.WithPrefix(), clientv3.WithRev(m.begin()), clientv3.WithCreatedNotify())
	for r := range responses {
		arrivals <- arrival{prefix: prefix, response: r, open: true}
	}
	arrivals <- arrival{prefix: prefix}
}

// begin returns the revision to watch from: one before the first revision wanted,
// unless that is compacted. etcd sends no progress to a watch that begins after its
// present revision, as a watch after a listing does until the next write.
func (m *merge) begin() int64 {
	if m.next == m.compacted {
		return m.next
	}
	return max(m.next-1, 1)
}

// serve handles arrivals and delivers batches until the stream fails.
func (m *merge) serve(ctx context.Context, arrivals <-chan arrival) error {
	probe := time.NewTicker(m.store.cfg.StallAfter / probes)
	defer probe.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-arrivals:
			if err := m.take(a); err != nil {
				return err
			}
			if err := m.deliver(ctx); err != nil {
				return err
			}
		case <-again:
		case <-probe.C:
			m.ask(ctx)
		}
		if !m.asked.IsZero() && time.Since(m.asked) > m.store.cfg.StallAfter {
			return fmt.Errorf("%w for %v", errStalled, m.store.cfg.StallAfter)
		}
		if again = nil; len(m.waiting) > 0 {
			m.ask(ctx)
			again = time.After(mergeRetry)
		}
	}
}

// ask requests progress of all prefixes. A request that gets lost shows as a stall.
func (m *merge) ask(ctx context.Context) {
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, m.store.cfg.StallAfter/probes)
	defer cancel()
	_ = m.watcher.RequestProgress(ctx)
}

// take handles one arrival.
func (m *merge) take(a arrival) error {
	if !a.open {
		m.open--
		return errClosed
	}
	m.asked = time.Time{} // any response shows that etcd answers
	r := a.response
	if r.CompactRevision == m.next && m.compacted != m.next {
		m.compacted = m.next
		return errEarly
	}
	if err := r.Err(); err != nil {
		return Named(err)
	}
	for _, e := range r.Events {
		c := record.Change{KV: recordKV(e.Kv), Deleted: e.Type == clientv3.EventTypeDelete}
		if c.ModRevision < m.next {
			continue // delivered, or listed, before
		}
		m.waiting = append(m.waiting, pending{a.prefix, c})
		// Not the header's revision: a watch that catches up has not reached it.
		m.reached[a.prefix] = c.ModRevision
	}
	if r.IsProgressNotify() {
		m.reached[a.prefix] = max(m.reached[a.prefix], r.Header.Revision)
	}
	return nil
}

// deliver delivers the changes up to the revision that all prefixes have reached.
func (m *merge) deliver(ctx context.Context) error {
	floor := slices.Min(m.reached)
	if floor < m.next {
		return nil
	}
	slices.SortStableFunc(m.waiting, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.ModRevision, b.ModRevision), cmp.Compare(a.prefix, b.prefix))
	})
	var ready []record.Change
	for _, p := range m.waiting {
		if p.ModRevision <= floor {
			ready = append(ready, p.Change)
		}
	}
	select {
	case m.out <- Batch{Changes: ready, Revision: floor}:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.waiting = slices.Delete(m.waiting, 0, len(ready))
	m.next = floor + 1
	return nil
}
