package host

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func TestCensusCountsNodesAndKnowsWhereTheyGossip(t *testing.T) {
	var counts []int
	c := &census{
		self:    "n1",
		counted: func(n int) { counts = append(counts, n) },
		gossip:  map[string]string{}, nodes: map[string]bool{},
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

func TestRecordsIgnoreWhatIsOlder(t *testing.T) {
	r := newRecords(quiet())
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
