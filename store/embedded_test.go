package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

func TestEmbeddedKeepsDataAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := store.EmbeddedConfig{DataDir: dir, Name: "test"} // with fsync, as in earnest
	first := startServer(t, cfg)
	s := open(t, first.Endpoint())
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	at := commit(t, s, put("a", "kept"), record.Op{Key: "b", Lease: lease})
	stopServer(t, first)

	cfg.Client = first.Endpoint()
	again := open(t, startServer(t, cfg).Endpoint())
	kvs, revision, err := again.Range(t.Context(), "")
	if err != nil || revision != at || len(kvs) != 2 || string(kvs[0].Value) != "kept" || kvs[1].Lease != lease {
		t.Errorf("after a restart: %+v at %d, %v; want a and b at %d", kvs, revision, err, at)
	}
	if _, err := again.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

func TestEmbeddedRefusesDirectories(t *testing.T) {
	t.Parallel()
	used := t.TempDir()
	startServer(t, embedded(used))

	another := t.TempDir()
	cfg := embedded(another)
	cfg.Name = "another"
	server := startServer(t, cfg)
	stopServer(t, server)

	locked := t.TempDir()
	stopServer(t, startServer(t, embedded(locked)))
	db, err := bbolt.Open(filepath.Join(locked, "etcd", "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	for _, c := range []struct {
		name string
		dir  string
		want string
		is   error
	}{
		{"in use", used, "stop that one, or choose another directory", store.ErrDataDirInUse},
		{"in use by another etcd", locked, "stop that one, or choose another directory", store.ErrDataDirInUse},
		{"another cluster's", another, `holds cluster "another", not "test"`, nil},
		{"with a damaged log", damagedDir(t, "wal/*.wal", 1000, 10_000), "restore it from a backup", nil},
		{"with a damaged database", damagedDir(t, "snap/db", 0, 10_000), "restore it from a backup", nil},
		{"a file", filepath.Join(another, "cluster"), "not a directory", syscall.ENOTDIR},
		{"none", "", "no data directory: name one", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused, err := store.StartEmbedded(t.Context(), embedded(c.dir))
			if err == nil {
				stopServer(t, refused)
				t.Fatal("it was not refused")
			}
			if !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %q, want %q, %v", err, c.want, c.is)
			}
		})
	}
}

// damagedDir returns the data directory of a server that has stopped, with
// bytes of one of its files flipped.
func damagedDir(t *testing.T, file string, from, to int) string {
	t.Helper()
	dir := t.TempDir()
	server := startServer(t, embedded(dir))
	commit(t, open(t, server.Endpoint()), put("a", strings.Repeat("x", 10_000)))
	stopServer(t, server)
	names, err := filepath.Glob(filepath.Join(dir, "etcd", "member", file))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s below %s: %v, %v", file, dir, names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		data[i] ^= 0x55
	}
	if err := os.WriteFile(names[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEmbeddedRefusesAddresses(t *testing.T) {
	t.Parallel()
	taken := startServer(t, embedded(t.TempDir())).Endpoint()
	for _, c := range []struct {
		client, peer, want string
		is                 error
	}{
		{taken, "", taken, syscall.EADDRINUSE},
		{"", taken, taken, syscall.EADDRINUSE},
		{"nowhere", "", `client address "nowhere": use an IP address and a port`, nil},
		{"", "127.0.0.1:http", `member n1 at "http://127.0.0.1:http": use https, an IP address and a port`, nil},
	} {
		cfg := embedded(t.TempDir())
		cfg.Client = c.client
		if c.peer != "" {
			cfg.Member, cfg.Members = "n1", []store.Member{{Name: "n1", URL: "http://" + c.peer}}
		}
		server, err := store.StartEmbedded(t.Context(), cfg)
		if err == nil {
			stopServer(t, server)
			t.Errorf("client %q, peer %q: not refused", c.client, c.peer)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("client %q, peer %q: error %q, want %q, %v", c.client, c.peer, err, c.want, c.is)
		}
		// What was refused let go of its directory.
		cfg.Client, cfg.Member, cfg.Members = "", "", nil
		startServer(t, cfg)
	}
}

// A server waits about seven seconds for its clients' streams unless it ends them.
func TestEmbeddedClosesInTimeUnderClients(t *testing.T) {
	t.Parallel()
	log, lines := logger()
	cfg := embedded(t.TempDir())
	cfg.Log = log
	server := startServer(t, cfg)
	s := open(t, server.Endpoint())
	at := commit(t, s, put("a", "1"))
	w := s.Watch(t.Context(), at, "a")
	if b := <-w.C; len(b.Changes) != 1 {
		t.Fatalf("watch delivered %+v", b)
	}
	ctx, cancel := after(t, 5*time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		t.Errorf("with a client's watch open: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("the watch, of an etcd that went away: %v", err)
	}
	if text := lines.String(); text != "" {
		t.Errorf("start and stop in good order were logged as\n%s", text)
	}
}

func TestEmbeddedTakesBiggerTransactions(t *testing.T) {
	t.Parallel()
	cfg := embedded(t.TempDir())
	cfg.MaxTxnOps = 1000
	s := openWith(t, store.Config{Endpoints: []string{startServer(t, cfg).Endpoint()}, MaxTxnOps: cfg.MaxTxnOps})
	ops := make([]record.Op, cfg.MaxTxnOps)
	for i := range ops {
		ops[i] = put(strings.Repeat("k", i+1), "")
	}
	commit(t, s, ops...)
}
