package rendezvous_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/rendezvous"
)

func nodes(names ...string) []rendezvous.Node {
	var out []rendezvous.Node
	for i, n := range names {
		out = append(out, rendezvous.Node{
			ID: cluster.NodeID(n), AliveRev: int64(100 + i), Addr: "addr-" + n, FirstPort: 20000, PortCount: 4,
		})
	}
	return out
}

func TestOneProcessOnEachNode(t *testing.T) {
	w, err := rendezvous.Form(rendezvous.Request{
		Allocation: alloc(t, "a:4 b:1 c:3"), Generation: 1, PerNode: true, Nodes: nodes("a", "b", "c"),
	})
	if err != nil || w.Processes() != 3 || w.Size() != 8 {
		t.Fatalf("%d processes on %d devices, %v", w.Processes(), w.Size(), err)
	}
	for i, m := range w.Members {
		if ranks := m.Ranks(); len(ranks) != 1 || ranks[0] != i || len(m.DevicesOf(0)) != len(m.Devices) {
			t.Errorf("member %d has the ranks %v with the devices %v", i, ranks, m.DevicesOf(0))
		}
	}
}

// alloc reads "b:2 a:1": two devices on b, one on a.
func alloc(t *testing.T, text string) cluster.Allocation {
	t.Helper()
	a := cluster.Allocation{Job: "j-aaaaaa", BatchSize: 64}
	for part := range strings.FieldsSeq(text) {
		var n int
		node, count, _ := strings.Cut(part, ":")
		if _, err := fmt.Sscan(count, &n); err != nil {
			t.Fatal(err)
		}
		p := cluster.Placement{Node: cluster.NodeID(node)}
		for i := range n {
			p.Devices = append(p.Devices, cluster.DeviceID(fmt.Sprintf("%s%d", node, i)))
		}
		a.Placements = append(a.Placements, p)
	}
	return a
}

func form(t *testing.T, r rendezvous.Request) cluster.World {
	t.Helper()
	w, err := rendezvous.Form(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func order(w cluster.World) string {
	var parts []string
	for _, m := range w.Members {
		parts = append(parts, fmt.Sprintf("%s@%d", m.Node, m.FirstRank))
	}
	return strings.Join(parts, " ")
}

func TestRanksAreStable(t *testing.T) {
	all := nodes("a", "b", "c", "d")
	for _, c := range []struct{ before, after, want string }{
		{"", "c:2 a:1 b:1", "a@0 b@1 c@2"},
		{"c:2 a:2", "a:2 b:1 c:1", "a@0 c@2 b@3"},
		{"b:2 d:2", "a:2 d:2", "d@0 a@2"},
		{"b:2 d:2", "a:1 c:1", "a@0 c@1"},
		{"a:2 b:2", "a:0 b:2", "b@0"},
	} {
		r := rendezvous.Request{Generation: 1, Nodes: all}
		if c.before != "" {
			r.Allocation = alloc(t, c.before)
			r.Previous = form(t, r).Members
		}
		r.Allocation, r.Generation = alloc(t, c.after), 2
		if got := order(form(t, r)); got != c.want {
			t.Errorf("after %q, %q is ranked %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

func TestMembersCarryTheirNodesLife(t *testing.T) {
	w := form(t, rendezvous.Request{Allocation: alloc(t, "a:1 b:1"), Generation: 7, Nodes: nodes("a", "b")})
	if w.Generation != 7 || w.BatchSize != 64 || w.Job != "j-aaaaaa" {
		t.Errorf("world %+v lacks what it was asked for", w)
	}
	if w.Members[0].AliveRev != 100 || w.Members[1].AliveRev != 101 {
		t.Errorf("members %+v do not carry their nodes' alive revisions", w.Members)
	}
}

func TestPortsRotateAndAvoidTheTaken(t *testing.T) {
	r := rendezvous.Request{Allocation: alloc(t, "a:1"), Generation: 1, Nodes: nodes("a")}
	seen := map[int]bool{}
	for g := range cluster.Generation(4) {
		r.Generation = g + 1
		e := form(t, r).Master
		if e.Host != "addr-a" || e.Port < 20000 || e.Port > 20003 || seen[e.Port] {
			t.Errorf("generation %d: endpoint %s is outside of the range or was just used", r.Generation, e)
		}
		seen[e.Port] = true
		r.Taken = append(r.Taken, e)
	}
	if _, err := rendezvous.Form(r); !errors.Is(err, rendezvous.ErrNoPort) {
		t.Errorf("with all ports taken: %v, want ErrNoPort", err)
	}
	// The same port of another host is another endpoint.
	r.Taken = []cluster.Endpoint{{Host: "addr-b", Port: 20000}, {Host: "addr-b", Port: 20001}, {Host: "addr-b", Port: 20002}, {Host: "addr-b", Port: 20003}}
	form(t, r)
}

func TestFormRefuses(t *testing.T) {
	r := rendezvous.Request{Allocation: alloc(t, "a:1 x:1"), Generation: 1, Nodes: nodes("a")}
	if _, err := rendezvous.Form(r); !errors.Is(err, rendezvous.ErrNodeUnknown) {
		t.Errorf("a node that is not alive: %v, want ErrNodeUnknown", err)
	}
	r.Allocation = alloc(t, "a:0")
	if _, err := rendezvous.Form(r); err == nil {
		t.Error("a world without devices was formed")
	}
	r.Allocation = alloc(t, "a:1")
	r.Nodes[0].PortCount = 0
	if _, err := rendezvous.Form(r); !errors.Is(err, rendezvous.ErrNoPort) {
		t.Errorf("a node without ports: %v, want ErrNoPort", err)
	}
}

// Whatever the allocation: each rank once, each device once, no dependence on the order of the request.
func TestFormProperties(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var text []string
		for _, i := range rng.Perm(len(names))[:1+rng.IntN(len(names))] {
			text = append(text, fmt.Sprintf("%s:%d", names[i], 1+rng.IntN(4)))
		}
		r := rendezvous.Request{Allocation: alloc(t, strings.Join(text, " ")), Generation: 3, Nodes: nodes(names...)}
		w := form(t, r)
		next, devices := 0, map[cluster.DeviceID]bool{}
		for _, m := range w.Members {
			if m.FirstRank != next {
				t.Fatalf("seed %d: %s begins at rank %d, want %d", seed, m.Node, m.FirstRank, next)
			}
			next += len(m.Devices)
			for _, d := range m.Devices {
				if devices[d] {
					t.Fatalf("seed %d: device %s has two ranks", seed, d)
				}
				devices[d] = true
			}
		}
		if next != r.Allocation.Workers() {
			t.Fatalf("seed %d: %d ranks for %d devices", seed, next, r.Allocation.Workers())
		}
		rng.Shuffle(len(r.Allocation.Placements), func(i, j int) {
			p := r.Allocation.Placements
			p[i], p[j] = p[j], p[i]
		})
		if again := form(t, r); !reflect.DeepEqual(w, again) {
			t.Fatalf("seed %d: the order of placements changed the world:\n%+v\n%+v", seed, w, again)
		}
	}
}
