package host

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// census stands between the API's server and the store. The server reads all
// records anyway; the census looks over its shoulder to know which other nodes
// there are, without a second listing of its own.
type census struct {
	store *store.Store
	self  cluster.NodeID // this node
	// counted is called when the number of nodes has changed.
	counted func(nodes int)

	mu     sync.Mutex
	gossip map[string]string       // where each node that is alive gossips, by its alive key
	nodes  map[cluster.NodeID]bool // the other nodes that have an inventory
	count  int
}

// Range lists records, as the store does.
func (c *census) Range(ctx context.Context, prefixes ...string) ([]record.KV, int64, error) {
	kvs, revision, err := c.store.Range(ctx, prefixes...)
	if err == nil && slices.Equal(prefixes, []string{record.Root}) {
		c.mu.Lock()
		c.gossip, c.nodes = map[string]string{}, map[cluster.NodeID]bool{}
		c.mu.Unlock()
		changes := make([]record.Change, len(kvs))
		for i, kv := range kvs {
			changes[i].KV = kv
		}
		c.take(changes)
	}
	return kvs, revision, err
}

// Commit executes a transaction, as the store does.
func (c *census) Commit(ctx context.Context, t record.Txn) record.Outcome {
	return c.store.Commit(ctx, t)
}

// watch delivers all records' changes, for the API's server.
func (c *census) watch(ctx context.Context, from int64, apply func([]record.Change)) error {
	w := c.store.Watch(ctx, from, record.Root)
	for batch := range w.C {
		c.take(batch.Changes)
		apply(batch.Changes)
	}
	return w.Err()
}

func (c *census) take(changes []record.Change) {
	c.mu.Lock()
	for _, change := range changes {
		switch at := record.Locate(change.Key); {
		case at.Kind == record.KindInventory && change.Deleted:
			delete(c.nodes, at.Node)
		case at.Kind == record.KindInventory && at.Node != c.self: // this one's may be still to come, or was deleted while it was away
			c.nodes[at.Node] = true
		case at.Kind == record.KindAlive && change.Deleted:
			delete(c.gossip, change.Key)
		case at.Kind == record.KindAlive:
			var alive record.Alive
			if json.Unmarshal(change.Value, &alive) == nil && alive.Gossip != "" {
				c.gossip[change.Key] = alive.Gossip
			}
		}
	}
	count := 1 + len(c.nodes)
	changed := count != c.count
	c.count = count
	c.mu.Unlock()
	if changed {
		c.counted(count)
	}
}

// has reports whether another node has an inventory: it may be away, but was not removed.
func (c *census) has(n cluster.NodeID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[n]
}

// known returns where other nodes gossip.
func (c *census) known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.gossip))
}
