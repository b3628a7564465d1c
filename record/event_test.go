package record_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// Events after a revision are those of the leaders and of the nodes, and are
// looked for only where one is newer: changes of other records are many.
func TestEventsAfterARevision(t *testing.T) {
	t.Parallel()
	m := mirror(t, nil)
	revision := int64(0)
	put := func(key string, value any) {
		t.Helper()
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		revision++
		change(t, m, record.Change{KV: record.KV{Key: key, Value: b, CreateRevision: revision, ModRevision: revision}})
	}
	told := func(after int64) (got []string) {
		for _, e := range m.Events(after) {
			got = append(got, fmt.Sprint(e.Revision, " ", e.Why))
		}
		return got
	}
	put(record.EventKey(1), record.Event{Seq: 1, Why: reason.Said("leader")})
	put(record.NodeEventKey("n1", 1), record.Event{Seq: 1, Node: "n1", Why: reason.Said("node")})
	put(record.ProgressKey("n1"), record.Progress{})
	for after, want := range [][]string{{"1 leader", "2 node"}, {"2 node"}, nil, nil, nil} {
		if got := told(int64(after)); !slices.Equal(got, want) {
			t.Errorf("after %d: %q, want %q", after, got, want)
		}
	}
	put(record.EventKey(2), record.Event{Seq: 2, Why: reason.Said("leader again")})
	if got, want := told(3), []string{"4 leader again"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// One that no change brought shows whether the ring is looked through.
	m.Told[7] = record.Versioned[record.Event]{Mod: 1 << 40, Value: record.Event{Seq: 7, Why: reason.Said("planted")}}
	put(record.ProgressKey("n1"), record.Progress{})
	if got := told(revision - 1); got != nil {
		t.Errorf("a change of another record had the events looked through: %q", got)
	}
}
