package host

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// tell is the operation that writes an event of a node's own, a part of the
// transaction that makes it true.
func tell(node cluster.NodeID, seq uint64, e record.Event) record.Op {
	e.Seq, e.At, e.Node = seq, time.Now().UTC(), node
	return record.Put(record.NodeEventKey(node, seq), e)
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
