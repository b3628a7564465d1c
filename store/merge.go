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
	// probes is how often a watch asks for a sign of life within Config.StallAfter.
	probes = 3
	// reopenDelay spaces the attempts to begin anew while etcd is away.
	reopenDelay = 200 * time.Millisecond
	// mergeRetry is when to ask again how far all prefixes have come: etcd
	// does not answer while one of them still catches up.
	mergeRetry = 50 * time.Millisecond
)

var (
	errStalled = errors.New("no sign of life")
	errClosed  = errors.New("etcd's client closed the watch")
	errEarly   = errors.New("the revision before the first one wanted is compacted")
)

// merge makes one stream in revision order of the watches of several prefixes.
//
// etcd keeps the order within one prefix only. So changes wait until each
// prefix is known to have come as far; with more than one prefix that takes
// asking etcd, one round trip a batch.
type merge struct {
	store    *Store
	out      chan<- Batch
	prefixes []string
	next     int64 // the first revision not delivered yet
	// compacted is the last compaction that a watch has run into; 0 = none.
	compacted int64

	watcher clientv3.Watcher
	open    int     // forwarders that have not ended
	reached []int64 // by prefix: everything up to here has arrived
	waiting []pending
	asked   time.Time // when the oldest question without an answer was put; zero: none
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

// run keeps one stream after the other until there is no point in another.
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
		case errors.Is(err, record.ErrCompacted), refused(err):
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
	// That the stream ended badly is what err says already.
	_ = m.watcher.Close()
	for m.open > 0 {
		if a := <-arrivals; !a.open {
			m.open--
		}
	}
	return err
}

// forward passes on what arrives for one prefix, last of all that nothing more will. stream owns it and reads until then.
func (m *merge) forward(ctx context.Context, prefix int, arrivals chan<- arrival) {
	responses := m.watcher.Watch(ctx, m.prefixes[prefix],
		clientv3.WithPrefix(), clientv3.WithRev(m.begin()), clientv3.WithCreatedNotify())
	for r := range responses {
		arrivals <- arrival{prefix: prefix, response: r, open: true}
	}
	arrivals <- arrival{prefix: prefix}
}

// begin is where to watch from: one revision earlier than what is wanted, unless
// that is compacted. etcd gives no sign of life to a watch that begins after its
// present revision, as one behind a listing does for as long as nothing is written.
func (m *merge) begin() int64 {
	if m.next == m.compacted {
		return m.next
	}
	return max(m.next-1, 1)
}

// serve takes arrivals in and delivers until something breaks.
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

// ask asks etcd how far all prefixes have come. A question that gets lost shows as a stall.
func (m *merge) ask(ctx context.Context) {
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, m.store.cfg.StallAfter/probes)
	defer cancel()
	_ = m.watcher.RequestProgress(ctx)
}

// take takes one arrival in.
func (m *merge) take(a arrival) error {
	if !a.open {
		m.open--
		return errClosed
	}
	m.asked = time.Time{} // whatever it is, it is a sign of life
	r := a.response
	if r.CompactRevision == m.next && m.compacted != m.next {
		m.compacted = m.next
		return errEarly
	}
	if err := r.Err(); err != nil {
		return named(err)
	}
	for _, e := range r.Events {
		c := record.Change{KV: recordKV(e.Kv), Deleted: e.Type == clientv3.EventTypeDelete}
		if c.ModRevision < m.next {
			continue // delivered, or listed, before
		}
		m.waiting = append(m.waiting, pending{a.prefix, c})
		// Not the header's revision: a watch that catches up has not come that far.
		m.reached[a.prefix] = c.ModRevision
	}
	if r.IsProgressNotify() {
		m.reached[a.prefix] = max(m.reached[a.prefix], r.Header.Revision)
	}
	return nil
}

// deliver passes on what no prefix can come before any more.
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
