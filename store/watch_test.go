package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

// collect reads batches until one of them brings the watch to a revision, and
// demands that they are in order and each make sense.
func collect(t *testing.T, w *store.Watch, through int64) []record.Change {
	t.Helper()
	var out []record.Change
	deadline := time.After(etcdtest.Soon)
	at := int64(0)
	for at < through {
		select {
		case b, ok := <-w.C:
			if !ok {
				t.Fatalf("the watch ended at revision %d of %d: %v", at, through, w.Err())
			}
			if b.Revision <= at {
				t.Fatalf("a batch at revision %d follows one at %d", b.Revision, at)
			}
			for _, c := range b.Changes {
				if c.ModRevision <= at || c.ModRevision > b.Revision {
					t.Fatalf("a batch for revisions %d to %d has one of %d", at+1, b.Revision, c.ModRevision)
				}
			}
			out = append(out, b.Changes...)
			at = b.Revision
		case <-deadline:
			t.Fatalf("the watch is at revision %d of %d after %v", at, through, etcdtest.Soon)
		}
	}
	for i := 1; i < len(out); i++ {
		if out[i].ModRevision < out[i-1].ModRevision {
			t.Fatalf("revision %d follows %d", out[i].ModRevision, out[i-1].ModRevision)
		}
	}
	return out
}

func closeWatch(t *testing.T, w *store.Watch) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, open := <-w.C; open {
		t.Error("the watch delivers after Close")
	}
}

// One transaction writes below each prefix; no batch may show one half of it.
func TestWatchDeliversWholeTransactionsInOrder(t *testing.T) {
	t.Parallel()
	const before, during = 1200, 200
	s := etcdtest.Store(t)
	prefixes := []string{"a/", "b/", "c/"}
	write := func(i int) int64 {
		return etcdtest.Commit(t, s, etcdtest.Put("a/k", fmt.Sprint(i)), etcdtest.Put("b/k", fmt.Sprint(i)), etcdtest.Put("c/k", fmt.Sprint(i)), etcdtest.Put("unseen", ""))
	}
	first := write(0)
	last := first
	for i := 1; i < before; i++ {
		last = write(i)
	}
	w := s.Watch(t.Context(), first, "c/", "a/", "b/", "a/k", "b/")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := before; i < before+during; i++ {
			write(i)
		}
	}()
	changes := collect(t, w, last+during)
	<-done
	if len(changes) != len(prefixes)*(before+during) {
		t.Fatalf("%d changes of %d transactions with %d each", len(changes), before+during, len(prefixes))
	}
	for i, c := range changes {
		want := record.Change{KV: record.KV{
			Key: prefixes[i%3] + "k", Value: fmt.Append(nil, i/3), CreateRevision: first, ModRevision: first + int64(i/3),
		}}
		if fmt.Sprint(c) != fmt.Sprint(want) {
			t.Fatalf("change %d: %+v, want %+v", i, c, want)
		}
	}
	closeWatch(t, w)
}

func TestWatchReportsProgress(t *testing.T) {
	t.Parallel()
	s := etcdtest.Store(t)
	for _, prefixes := range [][]string{{"one/"}, {"one/", "two/"}} {
		at := etcdtest.Commit(t, s, etcdtest.Put("elsewhere", ""))
		w := s.Watch(t.Context(), at, prefixes...)
		if changes := collect(t, w, at); len(changes) != 0 {
			t.Errorf("changes of other keys: %+v", changes)
		}
		closeWatch(t, w)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Config(t.TempDir()))
	s := etcdtest.Open(t, server.Endpoint())
	admin := etcdtest.Client(t, server.Endpoint())
	from := etcdtest.Commit(t, s, etcdtest.Put("a", "1"))
	at := etcdtest.Commit(t, s, etcdtest.Put("a", "2"))
	if _, err := admin.Compact(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	ended := func(w *store.Watch) error {
		for range w.C {
		}
		return w.Err()
	}
	if err := ended(s.Watch(t.Context(), from, "a", "b")); !errors.Is(err, record.ErrCompacted) || !strings.Contains(err.Error(), "watch a and b from revision 2") {
		t.Errorf("behind a compaction: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := s.Watch(ctx, at, "a")
	cancel()
	if err := ended(w); !errors.Is(err, context.Canceled) {
		t.Errorf("its context over: %v", err)
	}
	if err := ended(s.Watch(t.Context(), at)); err == nil || !strings.Contains(err.Error(), "give a prefix") {
		t.Errorf("without a prefix: %v", err)
	}
	left := s.Watch(t.Context(), at+1, "a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ended(left); !errors.Is(err, context.Canceled) {
		t.Errorf("its store closed: %v", err)
	}
	if err := ended(s.Watch(t.Context(), at+1, "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("opened on a closed store: %v", err)
	}
}

func TestRangeIsOfOneRevision(t *testing.T) {
	t.Parallel()
	const keys, rounds = 2500, 20
	s := etcdtest.Store(t)
	var ops []record.Op
	for i := range keys {
		if ops = append(ops, etcdtest.Put(fmt.Sprintf("many/%05d", i), "")); len(ops) == record.DefaultMaxTxnOps || i == keys-1 {
			etcdtest.Commit(t, s, ops...)
			ops = nil
		}
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			s.Commit(ctx, record.Txn{Then: []record.Op{etcdtest.Put("many/00000", fmt.Sprint(i)), etcdtest.Put("many/99999", fmt.Sprint(i)), etcdtest.Put("more", fmt.Sprint(i))}})
		}
	}()
	last := int64(0)
	for range rounds {
		kvs, at, err := s.Range(t.Context(), "more", "many/")
		if err != nil {
			t.Fatal(err)
		}
		if at < last {
			t.Fatalf("a listing at revision %d follows one at %d", at, last)
		}
		last = at
		if len(kvs) < keys+2 {
			continue // the writer has not begun
		}
		if a, b, c := kvs[0], kvs[keys], kvs[keys+1]; string(a.Value) != string(b.Value) || string(b.Value) != string(c.Value) {
			t.Fatalf("a listing at %d is of several revisions: %s, %s, %s", at, a.Value, b.Value, c.Value)
		}
	}
	cancel()
	<-done
	if kvs, _, err := s.Range(t.Context(), "more", "many/"); err != nil || len(kvs) != keys+2 {
		t.Errorf("%d keys listed, %v; want %d", len(kvs), err, keys+2)
	}
}

// A watch after a listing begins after etcd's present revision. etcd must answer its
// progress requests even if nothing is written.
func TestAnIdleWatchIsNotInterrupted(t *testing.T) {
	t.Parallel()
	const stall = 2 * time.Second
	for _, prefixes := range [][]string{{"one/"}, {"one/", "two/"}} {
		t.Run(fmt.Sprint(len(prefixes)), func(t *testing.T) {
			t.Parallel()
			endpoint := etcdtest.Endpoint(t)
			etcdtest.Undisturbed(t, endpoint, stall/4, func() error {
				log, said := etcdtest.NewLog()
				s := etcdtest.OpenWith(t, store.Config{Endpoints: []string{endpoint}, DialTimeout: etcdtest.Soon, StallAfter: stall, Log: log})
				at := etcdtest.Commit(t, s, etcdtest.Put("one/k", "listed"))
				w := s.Watch(t.Context(), at+1, prefixes...)
				select {
				case b := <-w.C:
					t.Errorf("delivered %+v, though nothing was written", b)
				case <-time.After(2*stall + stall/2): // long enough for two stalls
				}
				last := etcdtest.Commit(t, s, etcdtest.Put("one/k", "new"))
				if changes := collect(t, w, last); len(changes) != 1 || string(changes[0].Value) != "new" {
					t.Errorf("got %+v, want the one write since the listing", changes)
				}
				closeWatch(t, w)
				if strings.Contains(said.String(), "interrupted") {
					return fmt.Errorf("the watch was interrupted: %s", said)
				}
				return nil
			})
		})
	}
}
