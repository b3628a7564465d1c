package serve

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/record"
)

// authority makes a certificate authority, and certified a node's identity from it.
func authority(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	if err := trust.Init(dir, "test", false, time.Now()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func certified(t *testing.T, ca string, node cluster.NodeID) *trust.Identity {
	t.Helper()
	dir := filepath.Join(t.TempDir(), string(node))
	if err := trust.Issue(trust.Request{Authority: ca, Folder: dir, Node: node, Life: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	identity, err := trust.Load(dir, node)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// serveNodes lets an agent answer other nodes over TCP, and records that it does.
func (a *agent) serveNodes(t *testing.T, identity *trust.Identity) (address string) {
	t.Helper()
	a.server.cfg.Identity = identity
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.server.ServeNodes(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve nodes: %v", err)
		}
	})
	address = ln.Addr().String()
	a.store.put(t, record.Put(record.AliveKey(identity.Node()), record.Alive{API: "tls:" + address}))
	return address
}

// Logs come from another host as they do from another agent of this one.
func TestLogsAreReadOverTLS(t *testing.T) {
	store, n1, n2 := cluster2(t)
	ca := authority(t)
	n1.server.cfg.Identity = certified(t, ca, "n1")
	n2.serveNodes(t, certified(t, ca, "n2"))
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	n2.write(t, "train-aaaaaa", 1, 2, "c\n")
	want := []string{"n1 g1 r0 a", "n2 g1 r2 c"}
	var got []string
	eventually(t, "n1 knows where n2 answers", func() bool { got = texts(t, n1, api.LogQuery{}); return slices.Equal(got, want) })

	lines := make(chan string, 8)
	done := make(chan error, 1)
	go func() {
		done <- n1.Logs(t.Context(), "train", api.LogQuery{Follow: true}, func(l api.LogLine) error { lines <- l.Text; return nil })
	}()
	for range want {
		<-lines
	}
	appendTo(t, filepath.Join(n2.logs, "train-aaaaaa", "g00000001", "rank-2.log"), "later\n")
	if got := <-lines; got != "later" {
		t.Errorf("followed %q, want what n2's rank has just written", got)
	}
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Succeeded, Generation: 1}))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNodesThatDoNotTrustEachOtherSaySo(t *testing.T) {
	_, n1, n2 := cluster2(t)
	ca := authority(t)
	address := n2.serveNodes(t, certified(t, ca, "n2"))
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	missing := func(what, want string) {
		t.Helper()
		var got []string
		eventually(t, what, func() bool {
			got = texts(t, n1, api.LogQuery{})
			return len(got) == 2 && strings.Contains(got[1], want)
		})
	}
	missing("without a certificate", "node n1 has none: issue one with bellows tls issue n1")
	n1.server.cfg.Identity = certified(t, authority(t), "n1")
	missing("with one of another authority", "which ")
	n1.server.cfg.Identity = certified(t, ca, "n1")
	n1.store.put(t, record.Put(record.AliveKey("n2"), record.Alive{API: "tls:" + n1.serveNodes(t, n1.server.cfg.Identity)}))
	missing("n1 at n2's address", "asked node n2, and the certificate shown is of node n1")
	n1.store.put(t, record.Put(record.AliveKey("n2"), record.Alive{API: "tls:" + address}), record.Delete(record.AliveKey("n1")))
	missing("taken out of the cluster", "node n1 is not in this cluster now")
}

// What waiting does not mend is told once while following, as it is, and not waited for.
func TestFollowDoesNotWaitForWhatLasts(t *testing.T) {
	store, n1, n2 := cluster2(t)
	ca := authority(t)
	address := n2.serveNodes(t, certified(t, ca, "n2"))
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	n2.write(t, "train-aaaaaa", 1, 2, "b\n")
	for _, c := range []struct {
		what, api string
		as        *trust.Identity
		want      string
	}{
		{"no certificate", "tls:" + address, nil, "node n1 has none: issue one"},
		{"another authority's", "tls:" + address, certified(t, authority(t), "n1"), "which "},
		{"a later version", "quic:" + address, nil, "is it of a newer version?"},
	} {
		n1.server.cfg.Identity = c.as
		store.put(t, record.Put(record.AliveKey("n2"), record.Alive{API: c.api}))
		eventually(t, "n1 knows where n2 answers", func() bool {
			got := texts(t, n1, api.LogQuery{})
			return len(got) == 2 && strings.Contains(got[1], c.want)
		})
		// Its end comes while the job runs: no reader waits for the node.
		s := followLogs(t.Context(), t, n1, api.LogQuery{Rank: new(2), Generation: 1})
		l := s.next(c.want)
		if !l.Missing || !strings.HasPrefix(l.Notice, "node n2: what ranks 2 to 3 wrote in generation 1 is missing here") || !strings.Contains(l.Notice, c.want) {
			t.Errorf("%s: told is %+v", c.what, l)
		}
		select {
		case err := <-s.done:
			if err != nil || len(s.lines) > 0 {
				t.Errorf("%s: it ends with %v, and %d more lines", c.what, err, len(s.lines))
			}
		case <-time.After(patience):
			t.Fatalf("%s: following the rank does not end", c.what)
		}
	}
}

// Other nodes may ask for a node's part of the logs, for a named user, and for nothing else.
func TestOtherNodesMayAskForLittle(t *testing.T) {
	_, n1, n2 := cluster2(t)
	ca := authority(t)
	address := n2.serveNodes(t, certified(t, ca, "n2"))
	n1.server.cfg.Identity = certified(t, ca, "n1")
	eventually(t, "n2 knows of n1", func() bool { nodes, err := n2.Nodes(t.Context()); return err == nil && len(nodes) == 2 })
	c, err := n1.server.logs.agents.Client(api.Agent{Node: "n2", Addr: "tls:" + address})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/jobs", "/v1/nodes", "/v1/status"} {
		if err := c.Call(t.Context(), http.MethodGet, path, nil, nil); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := c.Call(t.Context(), http.MethodGet, "/v1/node/logs?job=train-aaaaaa&generation=1", nil, nil); api.CodeOf(err) != api.Invalid {
		t.Errorf("for no user: %v", err)
	}
	c = c.As(api.FormatUser(cluster.Owner{UID: 4242, GID: 4242, User: "mallory"}))
	if err := c.Call(t.Context(), http.MethodGet, "/v1/node/logs?job=train-aaaaaa&generation=1", nil, nil); api.CodeOf(err) != api.Forbidden {
		t.Errorf("for another user than the owner: %v", err)
	}
}
