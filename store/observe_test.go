package store_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

// Each call is told once, with how it ended.
func TestCallsAreObserved(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	server := etcdtest.Start(t, etcdtest.Config(t.TempDir()))
	s := etcdtest.OpenWith(t, store.Config{Endpoints: []string{server.Endpoint()}, DialTimeout: etcdtest.Soon, Observe: func(c store.Call) {
		mu.Lock()
		defer mu.Unlock()
		if c.Took <= 0 {
			t.Errorf("%s took %v", c.Kind, c.Took)
		}
		told = append(told, c.Kind+" "+c.Result)
	}})
	ctx := t.Context()
	etcdtest.Commit(t, s, etcdtest.Put("a", "1"))
	s.Commit(ctx, record.Txn{ID: "again", If: []record.Compare{record.Absent("a")}, Then: []record.Op{etcdtest.Put("a", "2")}})
	s.Commit(ctx, record.Txn{ID: "leased", Then: []record.Op{{Key: "b", Value: []byte("1"), Lease: 4711}}})
	if _, _, err := s.Get(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Range(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Grant(ctx, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(ctx, lease); err == nil {
		t.Error("a lease is renewed that is gone")
	}
	want := []string{
		"txn applied", "txn conflict", "txn refused", "get ok", "list ok", "grant ok", "renew ok", "revoke ok", "renew error",
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, want) {
		t.Errorf("told was %v, want %v", told, want)
	}
}
