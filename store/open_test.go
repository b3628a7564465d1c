package store_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	vacant := listen(t)
	_ = vacant.Close()
	silent := listen(t)
	defer silent.Close()
	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	defer strange.Close()
	for _, c := range []struct {
		name string
		cfg  store.Config
		want []string
	}{
		{"nothing listens", store.Config{Endpoints: []string{address(vacant)}}, []string{"within 200ms: start it or set --etcd", "refused"}},
		{"something is silent", store.Config{Endpoints: []string{address(silent)}}, []string{"start it or set --etcd", "it hangs, has no quorum, wants TLS"}},
		{
			"of two",
			store.Config{Endpoints: []string{address(vacant), address(silent)}},
			[]string{address(vacant) + ": dial", address(silent) + ": connected"},
		},
		{
			"unknown authority",
			store.Config{Endpoints: []string{address(strange.Listener)}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
			[]string{"start it or set --etcd", "TLS: ", "certificate"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.DialTimeout = 200 * time.Millisecond
			began := time.Now()
			s, err := store.Open(t.Context(), c.cfg)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, store.ErrUnreachable) {
				t.Errorf("%v, want %v", err, store.ErrUnreachable)
			}
			for _, want := range append(c.want, "etcd does not answer at "+strings.Join(c.cfg.Endpoints, ",")) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if took := time.Since(began); took > etcdtest.Soon {
				t.Errorf("that took %v", took)
			}
		})
	}
	if _, err := store.Open(t.Context(), store.Config{}); err == nil || !strings.Contains(err.Error(), "set --etcd") {
		t.Errorf("without an endpoint: %v", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func address(l net.Listener) string { return l.Addr().String() }

func TestOpenRefusesMembersOfTwoEtcds(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(t.TempDir())
	one := etcdtest.Start(t, cfg)
	cfg = etcdtest.Config(t.TempDir())
	cfg.Name = "other"
	other := etcdtest.Start(t, cfg)
	vacant := listen(t)
	_ = vacant.Close()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{address(vacant), one.Endpoint(), other.Endpoint()}, DialTimeout: etcdtest.Soon})
	if err == nil {
		_ = s.Close()
		t.Fatal("opened")
	}
	for _, want := range []string{one.Endpoint() + " (cluster ", other.Endpoint() + " (cluster ", "are not members of one etcd: set --etcd to the members of one"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	etcdtest.OpenWith(t, store.Config{Endpoints: []string{address(vacant), one.Endpoint(), one.Endpoint()}, DialTimeout: etcdtest.Soon, StallAfter: time.Second})
}

func TestOpenAsUser(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	enableAuth(t, endpoint)
	cfg := store.Config{Endpoints: []string{endpoint}, Username: "root", Password: "wrong", DialTimeout: etcdtest.Soon}
	for want, change := range map[string]func(*store.Config){
		`as user "root"`: func(*store.Config) {},
		`as user ""`:     func(c *store.Config) { c.Username, c.Password = "", "" },
		`as user "poor"`: func(c *store.Config) { c.Username, c.Password = "poor", "secret" },
	} {
		bad := cfg
		change(&bad)
		s, err := store.Open(t.Context(), bad)
		if err == nil {
			_ = s.Close()
			t.Errorf("opened %s", want)
			continue
		}
		if !strings.Contains(err.Error(), want) || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	cfg.Password = "secret"
	s := etcdtest.OpenWith(t, cfg)
	at := etcdtest.Commit(t, s, etcdtest.Put("a", ""))
	w := s.Watch(t.Context(), at, "a")
	collect(t, w, at)
	closeWatch(t, w)
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

func enableAuth(t *testing.T, endpoint string) {
	t.Helper()
	admin := etcdtest.Client(t, endpoint)
	_, role := admin.RoleAdd(t.Context(), "root")
	_, root := admin.UserAdd(t.Context(), "root", "secret")
	_, poor := admin.UserAdd(t.Context(), "poor", "secret")
	_, grant := admin.UserGrantRole(t.Context(), "root", "root")
	_, enable := admin.AuthEnable(t.Context())
	if err := errors.Join(role, root, poor, grant, enable); err != nil {
		t.Fatal(err)
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	s := etcdtest.Store(t)
	if _, err := s.CheckMeta(t.Context(), ""); !errors.Is(err, store.ErrNoCluster) {
		t.Errorf("before there is a cluster: %v", err)
	}
	want := record.Meta{Format: record.Format, Cluster: "lab"}
	for range 2 {
		if meta, err := s.EnsureMeta(t.Context(), "lab"); err != nil || meta != want {
			t.Errorf("ensure: %+v, %v; want %+v", meta, err, want)
		}
	}
	if meta, err := s.CheckMeta(t.Context(), ""); err != nil || meta != want {
		t.Errorf("check: %+v, %v; want %+v", meta, err, want)
	}
	if _, err := s.EnsureMeta(t.Context(), "mine"); err == nil || !strings.Contains(err.Error(), `belongs to cluster "lab", not "mine": set --cluster lab`) {
		t.Errorf("another cluster: %v", err)
	}
	for value, fault := range map[string]string{
		`{"format":7,"cluster":"lab"}`: "format 7, this version of Bellows reads format 1: run the version",
		`hello`:                        "is not a meta record",
	} {
		etcdtest.Commit(t, s, etcdtest.Put(record.MetaKey, value))
		if _, err := s.EnsureMeta(t.Context(), "lab"); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("meta %s: %v, want %q", value, err, fault)
		}
	}
}
