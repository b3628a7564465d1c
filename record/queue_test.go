package record_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Important jobs go first, then old ones, then by name; who does not wait has no place.
func TestQueue(t *testing.T) {
	m := mirror(t, nil)
	at := time.Unix(1e9, 0)
	rev := int64(0)
	add := func(id cluster.JobID, phase cluster.Phase, priority int, age time.Duration) {
		for _, op := range []record.Op{
			record.Put(record.SpecKey(id), record.Submitted{Spec: cluster.Spec{Priority: priority}, ID: id, At: at.Add(-age)}),
			record.Put(record.StateKey(id), record.State{Phase: phase}),
		} {
			rev++
			change(t, m, record.Change{KV: record.KV{Key: op.Key, Value: op.Value, CreateRevision: rev, ModRevision: rev}})
		}
	}
	add("young", cluster.Queued, 0, time.Minute)
	add("twin", cluster.Queued, 0, time.Hour)
	add("old", cluster.Queued, 0, time.Hour)
	add("minor", cluster.Queued, -1, 2*time.Hour)
	add("major", cluster.Queued, 5, 0)
	add("runs", cluster.Running, 9, 3*time.Hour)
	add("waits", cluster.Backoff, 9, 3*time.Hour)
	if got := fmt.Sprint(m.Queue()); got != "[major old twin young minor]" {
		t.Errorf("queue %s", got)
	}
	change(t, m, record.Change{KV: record.KV{Key: record.SpecKey("old"), ModRevision: rev + 1}, Deleted: true})
	change(t, m, record.Change{KV: record.KV{Key: record.StateKey("old"), ModRevision: rev + 2}, Deleted: true})
	if slices.Contains(m.JobIDs(), "old") || slices.Contains(m.Queue(), "old") {
		t.Error("a job that is gone is still listed")
	}
}
