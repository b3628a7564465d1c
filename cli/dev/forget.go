package dev

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// byName is what records say took a node out where no command did.
const byName = "bellows dev"

// forgetNodes takes the nodes out of the cluster that an earlier run on the same
// data had and this one has not. All their processes have been ended by now
// (cleanUp), and no coordinator runs yet. What such a node has said and was asked,
// requests and offers of checkpoints, stays: the leader has not taken it in perhaps.
func (s *supervisor) forgetNodes(ctx context.Context) error {
	kvs, revision, err := s.store.Range(ctx, record.NodesPrefix, record.JobsPrefix)
	if err != nil {
		return fmt.Errorf("look for nodes of an earlier run: %w", err)
	}
	m, err := record.NewMirror(kvs, revision)
	if err != nil {
		return fmt.Errorf("look for nodes of an earlier run: %w", err)
	}
	var gone []string
	for _, id := range m.NodeIDs() {
		v := m.Node(id)
		if _, ours := s.layout.node(id); ours && v.Cordon.Value.By == byName { // one that is back
			if err := s.commit(ctx, "take node "+string(id)+" in", record.Delete(record.CordonKey(id))); err != nil {
				return err
			}
		}
		if _, ours := s.layout.node(id); ours || !v.Alive.Exists() && !v.Inventory.Exists() && !v.Cordon.Exists() {
			continue
		}
		if err := s.commit(ctx, "take node "+string(id)+" out", forget(m, id, time.Now().UTC())...); err != nil {
			return err
		}
		if err := removeDead(beside(s.layout.socket, string(id))); err != nil {
			return fmt.Errorf("remove the socket of node %s: %w", id, err)
		}
		gone = append(gone, string(id))
	}
	if len(gone) > 0 {
		fmt.Fprintf(s.msg, "taken out of the cluster, as an earlier run had them and this one has not: %s\n", strings.Join(gone, ", "))
	}
	return nil
}

// forget is how a node is taken out. While a job is recorded to run there, the
// leader has to give the node up first: it is told that this is safe.
func forget(m *record.Mirror, id cluster.NodeID, now time.Time) []record.Op {
	ops := []record.Op{record.Delete(record.AliveKey(id)), record.Delete(record.InventoryKey(id)), record.Delete(record.ProgressKey(id))}
	if len(m.Unfinished(id)) > 0 {
		return append(ops, record.Put(record.CordonKey(id), record.Cordon{
			Reason: "'bellows dev' was started without it", By: byName, At: now, Drain: true, Down: true,
		}))
	}
	return append(ops, record.Delete(record.CordonKey(id)), record.Delete(record.FencingKey(id)), record.DeletePrefix(record.NodeEventsPrefix(id)))
}
