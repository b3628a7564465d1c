package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

// term is the result of a candidate's Campaign.
type term struct {
	*store.Leadership
	err error
}

func campaign(t *testing.T, s *store.Store, node string) term {
	t.Helper()
	ctx, cancel := etcdtest.After(t, etcdtest.Soon)
	defer cancel()
	l, err := s.Campaign(ctx, record.Leader{Node: node})
	return term{l, err}
}

// leads campaigns while there is no other candidate.
func leads(t *testing.T, s *store.Store, node string) *store.Leadership {
	t.Helper()
	l := campaign(t, s, node)
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.Leadership
}

// waits campaigns while another candidate leads, and returns the candidate's key once it exists.
func waits(t *testing.T, s *store.Store, node string) (record.KV, <-chan term) {
	t.Helper()
	kvs, revision, err := s.Range(t.Context(), record.LeaderPrefix)
	if err != nil || len(kvs) != 1 {
		t.Fatalf("leaders' keys %v, %v; want one", kvs, err)
	}
	c := make(chan term, 1)
	go func() { c <- campaign(t, s, node) }()
	w := s.Watch(t.Context(), revision+1, record.LeaderPrefix)
	kv := (<-w.C).Changes[0].KV
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return kv, c
}

// next returns the term of a candidate whose turn has come.
func next(t *testing.T, c <-chan term) *store.Leadership {
	t.Helper()
	l := <-c
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.Leadership
}

// holds requires that the leader's writes are applied.
func holds(t *testing.T, s *store.Store, l *store.Leadership) {
	t.Helper()
	out := s.Commit(t.Context(), record.Txn{If: []record.Compare{l.Compare()}, Then: []record.Op{etcdtest.Put("led", l.Key)}})
	if out.Result != record.Applied {
		t.Errorf("a leader's write: %v %v", out.Result, out.Err)
	}
	select {
	case <-l.Lost():
		t.Error("a term that has just begun is lost")
	default:
	}
}

// refuses requires that a former leader's writes are refused.
func refuses(t *testing.T, s *store.Store, l *store.Leadership) {
	t.Helper()
	out := s.Commit(t.Context(), record.Txn{If: []record.Compare{l.Compare()}, Then: []record.Op{etcdtest.Put("led", l.Key)}})
	if out.Result != record.Conflict || out.Err != nil {
		t.Errorf("a former leader's write: %+v", out)
	}
}

func resign(t *testing.T, l *store.Leadership) {
	t.Helper()
	if err := l.Resign(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCandidatesLeadInTurn(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	a, b := etcdtest.Open(t, endpoint), etcdtest.Open(t, endpoint)
	first := leads(t, a, "a")
	holds(t, a, first)
	key, c := waits(t, b, "b")
	select {
	case l := <-c:
		t.Fatalf("two leaders: %+v and %+v", first, l)
	default:
	}
	resign(t, first)
	etcdtest.AwaitClosed(t, "a leader that resigned is told", first.Lost())
	second := next(t, c)
	if second.Key != key.Key || second.CreateRevision != key.CreateRevision {
		t.Errorf("%s@%d leads, the one that waited was %s@%d", second.Key, second.CreateRevision, key.Key, key.CreateRevision)
	}
	holds(t, b, second)
	refuses(t, a, first)
	resign(t, second)
	if kvs, _, err := b.Range(t.Context(), record.LeaderPrefix); err != nil || len(kvs) != 0 {
		t.Errorf("after both resigned: %v, %v", kvs, err)
	}
}

func TestDeadLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	a, b := etcdtest.Open(t, endpoint), etcdtest.Open(t, endpoint)
	first := leads(t, a, "a")
	_, c := waits(t, b, "b")
	// To etcd, a closed store and a dead process look the same: the lease expires.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	etcdtest.AwaitClosed(t, "a leader whose store is closed is told", first.Lost())
	second := next(t, c)
	holds(t, b, second)
	refuses(t, b, first)
	resign(t, second)
}

// A leader that is cut off must know that its term is over before its successor's term begins.
func TestCutOffLeaderStopsFirst(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	p := etcdtest.StartProxy(t, endpoint)
	a, b := etcdtest.Open(t, p.Endpoint()), etcdtest.Open(t, endpoint)
	first := leads(t, a, "a")
	_, c := waits(t, b, "b")
	p.Freeze(true)
	second := next(t, c)
	select {
	case <-first.Lost():
	default:
		t.Error("its successor leads, and it has not been told")
	}
	p.Freeze(false)
	holds(t, b, second)
	refuses(t, a, first)
	resign(t, second)
}

// A known fault of etcd's own election: a waiting candidate whose key is gone, with its
// lease or without, believes that it leads when the leader resigns.
func TestNoCandidateLeadsWithoutKey(t *testing.T) {
	t.Parallel()
	for _, c := range depositions {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			endpoint := etcdtest.Endpoint(t)
			a, b := etcdtest.Open(t, endpoint), etcdtest.Open(t, endpoint)
			first := leads(t, a, "a")
			key, leader := waits(t, b, "b")
			if err := c.depose(a, key); err != nil {
				t.Fatal(err)
			}
			resign(t, first)
			second := next(t, leader)
			kv, exists, err := b.Get(t.Context(), second.Key)
			if err != nil || !exists || kv.CreateRevision != second.CreateRevision || kv.Key == key.Key {
				t.Errorf("leads with key %+v (exists: %v, %v), token %s@%d", kv, exists, err, second.Key, second.CreateRevision)
			}
			holds(t, b, second)
			resign(t, second)
		})
	}
}

// depositions are the ways in which a candidate or a leader loses its key.
var depositions = []struct {
	name   string
	depose func(*store.Store, record.KV) error
}{
	{"key deleted", func(s *store.Store, kv record.KV) error {
		return s.Commit(context.Background(), record.Txn{Then: []record.Op{record.Delete(kv.Key)}}).Err
	}},
	{"lease revoked", func(s *store.Store, kv record.KV) error { return s.Revoke(context.Background(), kv.Lease) }},
}

func TestDeposedLeaderIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range depositions {
		t.Run(c.name, func(t *testing.T) {
			s := etcdtest.Store(t)
			l := leads(t, s, "a")
			kv, _, err := s.Get(t.Context(), l.Key)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.depose(s, kv); err != nil {
				t.Fatal(err)
			}
			etcdtest.AwaitClosed(t, "a leader whose key is gone is told", l.Lost())
			refuses(t, s, l)
			resign(t, l)
		})
	}
}

func TestTermOutlivesItsTTL(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	// The lease is renewed every quarter of its time.
	etcdtest.Undisturbed(t, endpoint, store.DefaultLeaderTTL/4, func() error {
		s := etcdtest.Open(t, endpoint)
		l := leads(t, s, "a")
		lease := leaseOf(t, s, l)
		select {
		case <-l.Lost():
			return errors.New("a term was lost while etcd answered")
		case <-time.After(2 * store.DefaultLeaderTTL): // two TTLs: it is the passing of time that is tested
		}
		if _, err := s.TimeToLive(t.Context(), lease); err != nil {
			return err
		}
		holds(t, s, l)
		resign(t, l)
		return nil
	})
}

// leaseOf returns the lease of the leader's key.
func leaseOf(t *testing.T, s *store.Store, l *store.Leadership) int64 {
	t.Helper()
	kv, exists, err := s.Get(t.Context(), l.Key)
	if err != nil || !exists {
		t.Fatalf("the leader's key: %v, %v", exists, err)
	}
	return kv.Lease
}

func TestCandidateGivesUp(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	a, b := etcdtest.Open(t, endpoint), etcdtest.Open(t, endpoint)
	first := leads(t, a, "a")
	ctx, cancel := context.WithCancel(t.Context())
	c := make(chan error, 1)
	go func() {
		_, err := b.Campaign(ctx, record.Leader{Node: "b"})
		c <- err
	}()
	w := a.Watch(t.Context(), first.ModRevision+1, record.LeaderPrefix)
	key := (<-w.C).Changes[0].Key
	cancel()
	if err := <-c; !errors.Is(err, context.Canceled) {
		t.Errorf("campaign: %v", err)
	}
	if gone := (<-w.C).Changes[0]; !gone.Deleted || gone.Key != key {
		t.Errorf("after it gave up, its key: %+v", gone)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	resign(t, first)
}

// etcd may be restored from a backup that was made while a candidate still waited: its
// predecessor is back, with all that it had granted. Nothing that this leader writes
// lands there, since what it compares was written when its term began.
func TestATermBeginsWithAWrite(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	a, b := etcdtest.Open(t, endpoint), etcdtest.Open(t, endpoint)
	first := leads(t, a, "a")
	waiting, c := waits(t, b, "b")
	out := a.Commit(t.Context(), record.Txn{ID: "last", If: []record.Compare{first.Compare()}, Then: []record.Op{etcdtest.Put("led", first.Key)}})
	if out.Result != record.Applied {
		t.Fatalf("the first leader's write: %v %v", out.Result, out.Err)
	}
	resign(t, first)
	second := next(t, c)
	kv, exists, err := b.Get(t.Context(), second.Key)
	if err != nil || !exists || kv.CreateRevision != waiting.CreateRevision || kv.Lease != waiting.Lease {
		t.Errorf("its key is %+v (exists: %v, %v), and was %+v while it waited", kv, exists, err, waiting)
	}
	if cmp := second.Compare(); cmp != record.Unchanged(kv.Key, kv.ModRevision) || cmp.Revision <= out.Revision {
		t.Errorf("it compares %+v, its predecessor wrote at %d, its key is %+v", cmp, out.Revision, kv)
	}
	holds(t, b, second)
	// As if a restore had brought back the key of another moment.
	if out := b.Commit(t.Context(), record.Txn{ID: "rewrite", Then: []record.Op{{Key: kv.Key, Value: kv.Value, Lease: kv.Lease}}}); out.Result != record.Applied {
		t.Fatalf("%v %v", out.Result, out.Err)
	}
	refuses(t, b, second)
	resign(t, second)
}

// A process that was frozen past its lease finds that out when it asks, whichever of its timers have fired.
func TestAFrozenLeaderIsNotCertain(t *testing.T) {
	t.Parallel()
	var slept atomic.Int64
	s := etcdtest.OpenWith(t, store.Config{
		Endpoints: []string{etcdtest.Endpoint(t)}, DialTimeout: etcdtest.Soon, LeaderTTL: time.Hour, // no timer fires, and nothing is renewed, meanwhile
		Clock: func() time.Duration { return store.Boottime() + time.Duration(slept.Load()) },
	})
	l := leads(t, s, "a")
	if !l.Certain() {
		t.Error("a leader whose lease has an hour left is not certain of it")
	}
	select {
	case <-l.Lost():
		t.Error("its term is over")
	default:
	}
	slept.Store(int64(2 * time.Hour))
	if l.Certain() {
		t.Error("a leader whose lease ran out an hour ago is certain of it")
	}
	etcdtest.AwaitClosed(t, "it is told", l.Lost())
	resign(t, l)
}
