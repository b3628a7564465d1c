package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/server"
)

func TestEmbeddedKeepsDataAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := server.Config{DataDir: dir, Name: "test"} // with fsync, as in earnest
	first := etcdtest.Start(t, cfg)
	s := etcdtest.Open(t, first.Endpoint())
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	at := etcdtest.Commit(t, s, etcdtest.Put("a", "kept"), record.Op{Key: "b", Lease: lease})
	etcdtest.Stop(t, first)

	cfg.Client = first.Endpoint()
	again := etcdtest.Open(t, etcdtest.Start(t, cfg).Endpoint())
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
	etcdtest.Start(t, etcdtest.Config(used))

	another := t.TempDir()
	cfg := etcdtest.Config(another)
	cfg.Name = "another"
	etcd := etcdtest.Start(t, cfg)
	etcdtest.Stop(t, etcd)

	locked := t.TempDir()
	etcdtest.Stop(t, etcdtest.Start(t, etcdtest.Config(locked)))
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
		{"in use", used, "stop that one, or choose another directory", server.ErrDataDirInUse},
		{"in use by another etcd", locked, "stop that one, or choose another directory", server.ErrDataDirInUse},
		{"another cluster's", another, `holds cluster "another", not "test"`, nil},
		{"with a damaged log", damagedDir(t, "wal/*.wal", 1000, 10_000), "restore it from a backup", nil},
		{"with a damaged database", damagedDir(t, "snap/db", 0, 10_000), "restore it from a backup", nil},
		{"a file", filepath.Join(another, "cluster"), "not a directory", syscall.ENOTDIR},
		{"none", "", "no data directory: name one", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused, err := server.Start(t.Context(), etcdtest.Config(c.dir))
			if err == nil {
				etcdtest.Stop(t, refused)
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
	etcd := etcdtest.Start(t, etcdtest.Config(dir))
	etcdtest.Commit(t, etcdtest.Open(t, etcd.Endpoint()), etcdtest.Put("a", strings.Repeat("x", 10_000)))
	etcdtest.Stop(t, etcd)
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
	taken := etcdtest.Endpoint(t)
	for _, c := range []struct {
		client, peer, want string
		is                 error
	}{
		{taken, "", taken, syscall.EADDRINUSE},
		{"", taken, taken, syscall.EADDRINUSE},
		{"nowhere", "", `client address "nowhere": use an IP address and a port`, nil},
		{"", "127.0.0.1:http", `member n1 at "http://127.0.0.1:http": use https, an IP address and a port`, nil},
	} {
		cfg := etcdtest.Config(t.TempDir())
		cfg.Client = c.client
		if c.peer != "" {
			cfg.Member, cfg.Members = "n1", []server.Member{{Name: "n1", URL: "http://" + c.peer}}
		}
		etcd, err := server.Start(t.Context(), cfg)
		if err == nil {
			etcdtest.Stop(t, etcd)
			t.Errorf("client %q, peer %q: not refused", c.client, c.peer)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("client %q, peer %q: error %q, want %q, %v", c.client, c.peer, err, c.want, c.is)
		}
		// What was refused let go of its directory.
		cfg.Client, cfg.Member, cfg.Members = "", "", nil
		etcdtest.Start(t, cfg)
	}
}

// slow are lines of the log by which etcd tells that the machine is busy.
var slow = regexp.MustCompile(`(?m)^.*etcd: (apply request took too long|\w+ cannot campaign at term 1 since there are still pending).*\n`)

// etcd waits about seven seconds for its clients' streams unless the server ends them.
func TestEmbeddedClosesInTimeUnderClients(t *testing.T) {
	t.Parallel()
	log, lines := etcdtest.NewLog()
	cfg := etcdtest.Config(t.TempDir())
	cfg.Log = log
	etcd := etcdtest.Start(t, cfg)
	s := etcdtest.Open(t, etcd.Endpoint())
	at := etcdtest.Commit(t, s, etcdtest.Put("a", "1"))
	w := s.Watch(t.Context(), at, "a")
	if b := <-w.C; len(b.Changes) != 1 {
		t.Fatalf("watch delivered %+v", b)
	}
	ctx, cancel := etcdtest.After(t, etcdtest.Soon)
	defer cancel()
	if err := etcd.Close(ctx); err != nil {
		t.Errorf("with a client's watch open: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("the watch, of an etcd that went away: %v", err)
	}
	if text := slow.ReplaceAllString(lines.String(), ""); text != "" {
		t.Errorf("start and stop in good order were logged as\n%s", text)
	}
}

func TestEmbeddedTakesBiggerTransactions(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(t.TempDir())
	cfg.MaxTxnOps = 1000
	s := etcdtest.OpenWith(t, store.Config{Endpoints: []string{etcdtest.Start(t, cfg).Endpoint()}, MaxTxnOps: cfg.MaxTxnOps})
	ops := make([]record.Op, cfg.MaxTxnOps)
	for i := range ops {
		ops[i] = etcdtest.Put(strings.Repeat("k", i+1), "")
	}
	etcdtest.Commit(t, s, ops...)
}
