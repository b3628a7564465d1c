package api

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
