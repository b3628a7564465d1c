package membership

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bellows-ml/bellows/cluster"
)

// patience is how long a test waits for what must come. It is no measurement:
// a loaded machine may take its time.
const patience = 2 * time.Minute

func testKey() []byte { return []byte(strings.Repeat("k", 32)) }

// node describes a node to start; the zero tuning is the real one.
type node struct {
	Config
	tuning
}

// startNode starts a node on a free port of 127.0.0.<host> and closes it with
// the test.
func startNode(t *testing.T, id string, host int, change ...func(*node)) *Gossip {
	t.Helper()
	n := node{
		Config: Config{
			Node: cluster.NodeID(id),
			Bind: fmt.Sprintf("127.0.0.%d:0", host),
			Key:  testKey(),
			Meta: Meta{Incarnation: "1", API: id + ":7070"},
		},
		tuning: tuning{rejoin: rejoinDelay},
	}
	for _, c := range change {
		c(&n)
	}
	g, err := start(n.Config, n.tuning)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close %s: %v", id, err)
		}
	})
	return g
}

func join(t *testing.T, g *Gossip, peers ...*Gossip) {
	t.Helper()
	var addrs []string
	for _, p := range peers {
		addrs = append(addrs, p.Addr())
	}
	if n, err := g.Join(t.Context(), addrs); err != nil || n != len(addrs) {
		t.Fatalf("%s reached %d of %v: %v", g.roster.self, n, addrs, err)
	}
}

// awaitEvent reads events until one of the kind about the node, and returns
// all that it read.
func awaitEvent(t *testing.T, g *Gossip, kind Kind, id string) []Event {
	t.Helper()
	var seen []Event
	deadline := time.After(patience)
	for {
		select {
		case e, ok := <-g.Events():
			if !ok {
				t.Fatalf("events of %s ended; seen %v", g.roster.self, seen)
			}
			seen = append(seen, e)
			if e.Kind == kind && e.Member.Node == cluster.NodeID(id) {
				return seen
			}
		case <-deadline:
			t.Fatalf("%s saw no %s of %s; seen %v", g.roster.self, kind, id, seen)
		}
	}
}

func last(events []Event) Event { return events[len(events)-1] }

// awaitMembers polls until each of the nodes knows exactly the members named.
func awaitMembers(t *testing.T, names string, nodes ...*Gossip) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, g := range nodes {
		for {
			got := memberNames(g)
			if got == names {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s knows %q, want %q", g.roster.self, got, names)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func memberNames(g *Gossip) string {
	var names []string
	for _, m := range g.Members() {
		names = append(names, string(m.Node))
	}
	return strings.Join(names, " ")
}

// network joins nodes by a wire that can be cut between two groups of
// addresses.
type network struct {
	mu   sync.Mutex
	side map[string]int
}

func (n *network) cut(groups ...[]*Gossip) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.side = map[string]int{}
	for i, group := range groups {
		for _, g := range group {
			n.side[g.Addr()] = i
		}
	}
}

func (n *network) apart(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.side[a] != n.side[b]
}

// plug makes a node use this network. memberlist's own ways to find the dead
// again are switched off, so that only rejoining heals.
func (n *network) plug(t *testing.T) func(*node) {
	return func(node *node) {
		node.memberlist = func(conf *memberlist.Config) {
			inner, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
				BindAddrs: []string{conf.BindAddr},
				BindPort:  conf.BindPort,
				Logger:    conf.Logger,
			})
			if err != nil {
				t.Fatal(err)
			}
			self := net.JoinHostPort(conf.BindAddr, fmt.Sprint(inner.GetAutoBindPort()))
			conf.Transport = &wire{NetTransport: inner, self: self, network: n}
			conf.GossipToTheDeadTime = 0
			conf.PushPullInterval = 0
		}
	}
}

// wire is a transport that loses packets and refuses streams across a cut.
type wire struct {
	*memberlist.NetTransport
	self    string
	network *network
}

var errCut = errors.New("the wire is cut")

func (w *wire) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if w.network.apart(w.self, a.Addr) {
		return time.Now(), nil
	}
	return w.NetTransport.WriteToAddress(b, a)
}

func (w *wire) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if w.network.apart(w.self, a.Addr) {
		return nil, errCut
	}
	return w.NetTransport.DialAddressTimeout(a, timeout)
}
