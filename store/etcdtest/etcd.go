package etcdtest

import (
	"cmp"
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

// Soon bounds what takes milliseconds on an idle machine, so that a test on a
// loaded machine does not fail.
const Soon = 2 * time.Minute

// After returns a context that ends after d, and not with the test.
func After(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.WithoutCancel(t.Context()), d)
}

// Config returns the configuration of a server with its data in dir and without fsync.
func Config(dir string) server.Config {
	return server.Config{DataDir: dir, Name: "test", NoFsync: true}
}

// Start starts a server that ends with the test.
func Start(t testing.TB, cfg server.Config) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, s) })
	return s
}

// Stop stops a server. It may be stopped before.
func Stop(t testing.TB, s *server.Server) {
	t.Helper()
	ctx, cancel := After(t, Soon)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// Endpoint starts a server in a directory of its own and returns its address.
func Endpoint(t testing.TB) string {
	t.Helper()
	return Start(t, Config(t.TempDir())).Endpoint()
}

// Open connects to an endpoint. Only the time after which a watch counts as stalled
// is shorter than by default: with shorter timeouts a loaded machine would be a fault.
func Open(t testing.TB, endpoint string) *store.Store {
	t.Helper()
	return OpenWith(t, store.Config{Endpoints: []string{endpoint}, DialTimeout: Soon, StallAfter: time.Second})
}

// OpenHasty connects to an endpoint that will fail: its calls end after a second.
func OpenHasty(t testing.TB, endpoint string) *store.Store {
	t.Helper()
	return OpenWith(t, store.Config{Endpoints: []string{endpoint}, DialTimeout: Soon, CallTimeout: time.Second, StallAfter: time.Second})
}

// OpenWith connects with a configuration of the test's own. Unless that says so, no
// call ends for a machine's load.
func OpenWith(t testing.TB, cfg store.Config) *store.Store {
	t.Helper()
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, Soon)
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := s.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	return s
}

// Store returns a client of a new etcd.
func Store(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, Endpoint(t))
}

// Client returns etcd's own client of an endpoint.
func Client(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := c.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	return c
}

// Put returns an operation that writes a key.
func Put(key, value string) record.Op { return record.Op{Key: key, Value: []byte(value)} }

// Commit commits operations that cannot fail and returns their revision.
func Commit(t testing.TB, s *store.Store, ops ...record.Op) int64 {
	t.Helper()
	ctx, cancel := After(t, Soon)
	defer cancel()
	out := s.Commit(ctx, record.Txn{ID: t.Name(), Then: ops})
	if out.Result != record.Applied {
		t.Fatalf("commit %+v: %v %v", ops, out.Result, out.Err)
	}
	return out.Revision
}

// AwaitClosed waits until a channel is closed.
func AwaitClosed(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Soon):
		t.Fatalf("%s: not within %v", what, Soon)
	}
}
