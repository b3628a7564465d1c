package host

import (
	"maps"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func TestCensusCountsNodesAndKnowsWhereTheyGossip(t *testing.T) {
	t.Parallel()
	var counts []int
	c := &census{
		self:    "n1",
		counted: func(n int) { counts = append(counts, n) },
		gossip:  map[string]string{}, nodes: map[cluster.NodeID]bool{},
	}
	put := func(op record.Op) record.Change {
		return record.Change{KV: record.KV{Key: op.Key, Value: op.Value}}
	}
	alive := func(n, gossip string) record.Change {
		return put(record.Put("/bellows/nodes/"+n+"/alive", record.Alive{Gossip: gossip}))
	}
	c.take(nil)
	c.take([]record.Change{
		alive("n1", "127.0.0.2:7946"),
		put(record.Put(record.InventoryKey("n1"), record.Inventory{})),
		put(record.Put(record.SpecKey("j"), record.Submitted{})),
	})
	c.take([]record.Change{alive("n2", "127.0.0.3:7946"), put(record.Put(record.InventoryKey("n2"), record.Inventory{}))})
	if got, want := c.known(), []string{"127.0.0.2:7946", "127.0.0.3:7946"}; !slices.Equal(got, want) {
		t.Errorf("known: %v, want %v", got, want)
	}
	gone := alive("n2", "")
	gone.Deleted = true
	c.take([]record.Change{gone})
	if got := c.known(); !slices.Equal(got, []string{"127.0.0.2:7946"}) {
		t.Errorf("known after a node went: %v", got)
	}
	// A node that is away may come back: it still counts, until it is removed. This one always does.
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		c.take([]record.Change{{KV: record.KV{Key: record.InventoryKey(n)}, Deleted: true}})
	}
	if !slices.Equal(counts, []int{1, 2, 1}) {
		t.Errorf("counts: %v", counts)
	}
}

// What has fallen silent is shown for as long as it belongs to the cluster.
func TestGossipForgetsWhoWasRemoved(t *testing.T) {
	t.Parallel()
	c := &census{self: "n1", nodes: map[cluster.NodeID]bool{"away": true}}
	g := &gossip{belongs: c.has, heard: map[cluster.NodeID]string{"n1": "alive", "new": "alive", "away": "dead", "removed": "dead", "gone": "left"}}
	want := map[cluster.NodeID]string{"n1": "alive", "new": "alive", "away": "dead"}
	if got := g.states(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A node fences itself while it knows of others, or as long as its word stands
// that it does, of whichever life; and is told nothing before it knows.
func TestWhoIsAloneFencesItselfUntilThatIsTakenBack(t *testing.T) {
	t.Parallel()
	const own, deadline = 7, 42
	for _, c := range []struct {
		crowd  int
		said   int64
		strict bool
		told   int64
	}{
		{0, 0, false, 0},
		{0, own, true, 0},
		{1, 0, false, fence.Never},
		{1, own, true, deadline},
		{1, own - 1, true, deadline},
		{2, 0, true, deadline},
		{2, own, true, deadline},
	} {
		n := bareNode(t.Context(), Config{Node: "n1", Log: quiet()}, nil)
		n.session.nodes, n.session.presence = c.crowd, presence{aliveRev: own, deadline: deadline}
		if n.session.deadline() != 0 {
			t.Error("it tells a deadline before it knows its own records")
		}
		word := record.Put(record.FencingKey("n1"), record.Fencing{AliveRev: c.said})
		n.records.list(selfPart, []string{record.NodePrefix("n1")}, []record.KV{{Key: word.Key, Value: word.Value, ModRevision: 8}}, 9)
		if n.session.strict() != c.strict || n.session.deadline() != c.told {
			t.Errorf("%d nodes, said of life %d: strict %v, deadline %d; want %v, %d", c.crowd, c.said, n.session.strict(), n.session.deadline(), c.strict, c.told)
		}
	}
}

func TestRecordsIgnoreWhatIsOlder(t *testing.T) {
	t.Parallel()
	r := newRecords("n1", quiet())
	prefix := []string{record.GenerationPrefix("j", 1)}
	key := record.PermitKey("j", 1)
	at := func(mod int64, deleted bool) record.Change {
		c := record.Change{KV: record.KV{Key: key, ModRevision: mod, CreateRevision: mod}, Deleted: deleted}
		if !deleted {
			c.Value = record.Put(key, record.Permit{}).Value
		}
		return c
	}
	permit := func() bool { return r.mirror.Job("j").Generation(1).Permit.Exists() }
	r.list("gen", prefix, []record.KV{at(5, false).KV}, 6)
	if !permit() || !r.known("gen") {
		t.Fatal("a listed permit is not there")
	}
	r.change(at(7, true))
	r.list("gen", prefix, []record.KV{}, 8)
	if permit() {
		t.Error("a deleted permit is there")
	}
	r.change(at(9, false))
	r.list("gen", prefix, nil, 8) // a listing that was overtaken
	if !permit() {
		t.Error("an older listing has taken away a newer permit")
	}
	r.list("gen", prefix, nil, 10)
	if permit() {
		t.Error("a permit that a newer listing lacks is there")
	}
	r.forget("gen", prefix)
	if r.known("gen") || len(r.raw) != 0 {
		t.Error("a part that is not followed any more is still known")
	}
}
