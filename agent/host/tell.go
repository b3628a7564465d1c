package host

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// tell is the operation that writes an event of a node's own, to ride in the
// transaction that makes it true.
func tell(node cluster.NodeID, seq uint64, e record.Event) record.Op {
	e.Seq, e.At, e.Node = seq, time.Now().UTC(), node
	return record.Put(record.NodeEventKey(node, seq), e)
}

// tell is the function of that name for this node, which knows its numbers.
func (n *node) tell(e record.Event) record.Op {
	n.told = max(n.told, n.presence.told, record.Newest(n.self().Told).Value.Seq) + 1
	return tell(n.cfg.Node, n.told, e)
}

// lastTold reads the number of a node's newest event, 0 if it has told none.
func lastTold(ctx context.Context, s *store.Store, node cluster.NodeID) (uint64, error) {
	kvs, revision, err := s.Range(ctx, record.NodeEventsPrefix(node))
	if err != nil {
		return 0, err
	}
	// One that this version cannot read is written over in its turn.
	m, _ := record.NewMirror(kvs, revision)
	return record.Newest(m.Node(node).Told).Value.Seq, nil
}

// sayGoodbye tells that this node leaves of its own accord, with the end of its
// alive key. Where that does not succeed the node's lease ends it all the same,
// and it counts as lost.
func (n *node) sayGoodbye(ctx context.Context) {
	out := n.store.Commit(ctx, record.Txn{
		ID: "leave", If: []record.Compare{n.stillHere()},
		Then: []record.Op{record.Delete(record.AliveKey(n.cfg.Node)), n.tell(record.Event{Kind: record.NodeLeft, Why: "its agent was ended, and nothing ran there"})},
	})
	if out.Result != record.Applied {
		n.log.Warn().Err(out.Err).Msg("cannot tell that the node leaves")
	}
}
