package serve

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// What of a node's topology is not used, and where nodes disagree, is shown with the node, and only there.
func TestTopologyProblemsAreShown(t *testing.T) {
	var kvs []record.KV
	for id, i := range map[cluster.NodeID]record.Inventory{
		"n1": {Location: "rack7", Devices: []cluster.Device{{ID: "a", Group: "g0"}, {ID: "b"}}},
		"n2": {Location: "block1/rack7", TopologyProblem: "--device-groups leaves out device 1 of 2"},
		"n3": {Location: "rack8"},
	} {
		op := record.Put(record.InventoryKey(id), i)
		kvs = append(kvs, record.KV{Key: op.Key, Value: op.Value, CreateRevision: 1, ModRevision: 1})
	}
	m, err := record.NewMirror(kvs, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"n1": {"device b is in no group", "set --device-groups of its agent", `; location "rack7": node n2 has rack7 inside of another`, "make the --location of both agents agree"},
		"n2": {"--device-groups leaves out device 1 of 2"},
	}
	shown := nodeStatuses(m, nil)
	for _, n := range shown {
		for _, part := range want[n.ID] {
			if !strings.Contains(n.TopologyProblem, part) {
				t.Errorf("%s: %q lacks %q", n.ID, n.TopologyProblem, part)
			}
		}
		if strings.HasPrefix(n.TopologyProblem, ";") || n.ID != "n1" && strings.Contains(n.TopologyProblem, "location") || want[n.ID] == nil && n.TopologyProblem != "" {
			t.Errorf("%s: %q", n.ID, n.TopologyProblem)
		}
	}
	if len(shown) != 3 {
		t.Errorf("%d nodes are shown", len(shown))
	}
}

// What waits on a node to start next generations is counted while it is asked for, and ready.
func TestLaunchersAreShown(t *testing.T) {
	var kvs []record.KV
	put := func(op record.Op) {
		kvs = append(kvs, record.KV{Key: op.Key, Value: op.Value, CreateRevision: 1, ModRevision: 1})
	}
	put(record.Put(record.InventoryKey("n1"), record.Inventory{}))
	for job, c := range map[cluster.JobID]struct {
		asked cluster.Generation
		ready record.Ready
	}{
		"a": {3, record.Ready{Generation: 3, Memory: 700 << 20}},
		"b": {2, record.Ready{Generation: 2, Memory: 300 << 20}},
		"c": {3, record.Ready{Generation: 2, Memory: 1 << 30}},        // of one before
		"d": {2, record.Ready{Generation: 2, Cold: "it has no room"}}, // nothing waits
		"e": {0, record.Ready{Generation: 2, Memory: 1 << 30}},        // nothing asks for it any more
		"f": {4, record.Ready{Generation: 4, Memory: 1 << 30}},        // that generation has begun
	} {
		if job == "f" {
			put(record.Put(record.StateKey(job), record.State{Generation: 4}))
		}
		if c.asked != 0 {
			put(record.Put(record.NextKey("n1", job), record.Next{Generation: c.asked}))
		}
		put(record.Put(record.ReadyKey("n1", job), c.ready))
	}
	m, err := record.NewMirror(kvs, 1)
	if err != nil {
		t.Fatal(err)
	}
	for job, want := range map[cluster.JobID]bool{"a": true, "b": true, "d": true, "e": false, "f": false} {
		if got := prepared(m, job); (len(got) > 0) != want {
			t.Errorf("prepared of %s: %+v", job, got)
		}
	}
	if shown := nodeStatuses(m, nil); len(shown) != 1 || shown[0].Launchers != 2 || shown[0].LauncherBytes != 1000<<20 {
		t.Errorf("shown: %+v", shown)
	}
}
