package record_test

import (
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// What a node says of a generation counts for the one of that number that it means,
// and for no other: numbers come again when etcd is restored from a backup.
func TestWhatIsSaidCountsForItsOwnTimeline(t *testing.T) {
	m := mirror(t, nil)
	revision := int64(0)
	put := func(op record.Op) {
		revision++
		change(t, m, record.Change{KV: record.KV{Key: op.Key, Value: op.Value, CreateRevision: revision, ModRevision: revision}})
	}
	for g, nonce := range map[cluster.Generation]string{1: "", 2: "new"} {
		put(record.Put(record.AckKey("n1", "j", g, record.AckStarted), record.Started{Containment: "weak", Nonce: nonce}))
		put(record.Put(record.AckKey("n1", "j", g, record.AckHeld), record.Held{SDK: true, Nonce: nonce}))
		put(record.Put(record.AckKey("n1", "j", g, record.AckFailed), record.Failed{Reason: "r", Nonce: nonce}))
		put(record.Put(record.AckKey("n1", "j", g, record.AckStopped), record.Stopped{Progress: &record.JobProgress{Generation: g, Step: 7}, Nonce: nonce}))
		put(record.Put(record.SavedKey("n1", "j", g, 5), record.Saved{Dir: "/d", Nonce: nonce}))
		put(record.Put(record.OfferKey("n1", "j", g, 5), record.Offer{Nonce: nonce}))
	}
	put(record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{"j": {Generation: 2, Step: 9, Nonce: "new"}}}))
	v := m.Node("n1")
	for _, c := range []struct {
		generation cluster.Generation
		nonce      string
		counts     bool
		step       int64
	}{
		{1, "", true, 7},
		{2, "new", true, 9},
		{1, "new", false, 0},
		{2, "old", false, 0},
		{2, "", false, 0},
		{3, "", false, 0},
	} {
		a, jg := v.Ack("j", c.generation, c.nonce), record.JobGen{Job: "j", Generation: c.generation}
		for what, counts := range map[string]bool{
			"started": a.Started.Exists(), "held": a.Held.Exists(), "failed": a.Failed.Exists(), "stopped": a.Stopped.Exists(),
			"saved": len(record.Of(v.Saved[jg], c.nonce)) > 0, "offer": len(record.Of(v.Offers[jg], c.nonce)) > 0,
		} {
			if counts != c.counts {
				t.Errorf("generation %d %q: %s counts: %t", c.generation, c.nonce, what, counts)
			}
		}
		if p, ok := v.Reported("j", c.generation, c.nonce); ok != c.counts || p.Step != c.step {
			t.Errorf("generation %d %q: reported %+v, %t", c.generation, c.nonce, p, ok)
		}
	}
	if len(v.Saved[record.JobGen{Job: "j", Generation: 2}]) != 1 {
		t.Error("the records themselves were changed")
	}
}
