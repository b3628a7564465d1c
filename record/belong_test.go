package record_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// What is left of a node that was removed, and what may still run there, over the life of a job.
func TestWhatIsLeftOfANode(t *testing.T) {
	const job = "j-aaaaaa"
	m, err := record.NewMirror(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	state := func(p cluster.Phase) record.Op {
		return record.Put(record.StateKey(job), record.State{Phase: p, Generation: 2})
	}
	plan := record.Plan{World: cluster.World{Job: job, Generation: 2, Members: []cluster.Member{{Node: "n1"}, {Node: "n2"}}}}
	for i, c := range []struct {
		what               string
		op                 record.Op
		unfinished, quoted bool // on n1
	}{
		{"nothing", record.Put(record.InventoryKey("n1"), record.Inventory{}), false, false},
		{"a plan of a job whose state is not known", record.Put(record.PlanKey(job, 2), plan), false, false},
		{"it starts", state(cluster.Starting), true, false},
		{"an older generation had stopped", record.Put(record.AckKey("n1", job, 1, record.AckStopped), record.Stopped{}), true, false},
		{"progress of it", record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{job: {Generation: 2}}}), true, true},
		{"the other is given up", record.Put(record.FenceKey(job, 2, "n2"), record.Fence{}), true, true},
		{"this one, too", record.Put(record.FenceKey(job, 2, "n1"), record.Fence{}), false, true},
		{"no, it has not been", record.Delete(record.FenceKey(job, 2, "n1")), true, true},
		{"it has stopped by itself", record.Put(record.AckKey("n1", job, 2, record.AckStopped), record.Stopped{}), false, true},
		{"no progress any more", record.Delete(record.ProgressKey("n1")), false, true},
		{"not stopped", record.Delete(record.AckKey("n1", job, 2, record.AckStopped)), true, false},
		{"a save", record.Put(record.SavedKey("n1", job, 2, 7), record.Saved{}), true, true},
		{"none", record.Delete(record.SavedKey("n1", job, 2, 7)), true, false},
		{"an offer", record.Put(record.OfferKey("n1", job, 2, 7), record.Offer{}), true, true},
		{"it is in a phase of a later version", state("suspended"), true, true},
		{"it has ended", state(cluster.Stopped), false, true},
		{"it runs, and its plan names another generation", record.Put(record.PlanKey(job, 2), record.Plan{World: cluster.World{Job: job, Generation: 7, Members: plan.World.Members}}), false, true},
		{"running", state(cluster.Running), false, true},
		{"but devices of this node are granted to it", record.Put(record.GrantKey("n1", job), record.Grant{Generation: 2}), true, true},
		{"it has said of some timeline that nothing is left", record.Put(record.AckKey("n1", job, 2, record.AckStopped), record.Stopped{Nonce: "lost"}), false, true},
		{"its grants are those of another generation", record.Put(record.GrantKey("n1", job), record.Grant{Generation: 1}), false, true},
		{"its generation is collected", record.Delete(record.PlanKey(job, 2)), false, false},
	} {
		if _, err := m.Apply(record.Change{KV: record.KV{Key: c.op.Key, Value: c.op.Value, ModRevision: int64(i + 1), CreateRevision: int64(i + 1)}, Deleted: c.op.Delete}); err != nil {
			t.Fatal(err)
		}
		got := m.Unfinished("n1")
		if want := []record.JobGen{{Job: job, Generation: 2}}; len(got) > 0 != c.unfinished || c.unfinished && !slices.Equal(got, want) {
			t.Errorf("%s: unfinished %v, want %v", c.what, got, c.unfinished)
		}
		if v := m.Node("n1"); m.Quoted(v) != c.quoted || !v.Belongs() {
			t.Errorf("%s: quoted %v, want %v; belongs %v", c.what, m.Quoted(v), c.quoted, v.Belongs())
		}
	}
	if m.Node("n2").Belongs() || len(m.Unfinished("n9")) > 0 {
		t.Error("an unknown node belongs to the cluster, or has unfinished work")
	}
}
