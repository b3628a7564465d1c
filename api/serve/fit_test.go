package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A submit of a job that never fits is answered with a warning; one that only has to wait is not.
func TestJobsThatNeverFitAreWarnedOf(t *testing.T) {
	store := newFakeStore()
	for _, n := range []cluster.NodeID{"n1", "n2"} { // neither is alive: both may come back
		store.put(t, record.Put(record.InventoryKey(n), record.Inventory{Devices: []cluster.Device{
			{ID: cluster.DeviceID(n + "a"), Model: "A100"}, {ID: cluster.DeviceID(n + "b"), Model: "A100"}, {ID: cluster.DeviceID(n + "c"), Model: "A100"},
		}}))
	}
	a := serve(t, store, "n1", nil)
	for _, c := range []struct {
		name  string
		least int
		where cluster.Where
		want  []string
	}{
		{"fits", 4, cluster.Where{}, nil},
		{"large", 8, cluster.Where{}, []string{
			"it never fits the cluster as it is: it needs 8 or more devices, and the nodes that can run it have 6 (the largest world that fits is of 4); the job waits until there are more",
		}},
		{"there", 4, cluster.Where{Nodes: []cluster.NodeID{"n2"}}, []string{
			"it never fits the cluster as it is: it needs 4 or more devices, and the nodes that can run it have 3 (the largest world that fits is of 2); the job waits until there are more",
		}},
		{"model", 1, cluster.Where{DeviceModel: "h100"}, []string{
			"it never fits the cluster as it is: it needs 1 or more devices, and the nodes that can run it have 0 (no world of it fits); the job waits until there are more",
		}},
		{"preferred", 4, cluster.Where{PreferModel: "a100"}, nil},
		{"preferred and not there", 4, cluster.Where{PreferModel: "h100"}, []string{
			`no device that can run it has "h100" in its model's name (--prefer-model): it runs on A100`,
		}},
	} {
		warned(t, a, c.name, c.least, c.where, c.want)
	}
	store.put(t, record.Put(record.InventoryKey("n2"), record.Inventory{Devices: []cluster.Device{{ID: "n2a", Model: "T4"}, {ID: "n2b", Model: "T4"}}}))
	for _, c := range []struct {
		name  string
		least int
		where cluster.Where
		want  []string
	}{
		{"of one model", 2, cluster.Where{}, nil},
		{"larger than each model", 4, cluster.Where{}, []string{
			"it never fits the cluster as it is: it needs 4 or more devices of one model, and the nodes that can run it have 3 (the largest world that fits is of 2); " +
				"the job waits until there are more, or may have several models at once (--mix-models)",
		}},
		{"larger than all", 8, cluster.Where{}, []string{
			"it never fits the cluster as it is: it needs 8 or more devices of one model, and the nodes that can run it have 3 (the largest world that fits is of 2); the job waits until there are more",
		}},
		{"of several", 4, cluster.Where{MixModels: true}, nil},
	} {
		warned(t, a, c.name, c.least, c.where, c.want)
	}
}

// warned demands that a job is accepted with these warnings.
func warned(t *testing.T, a *agent, name string, least int, where cluster.Where, want []string) {
	t.Helper()
	spec := goodSpec(strings.ReplaceAll(name, " ", "-"))
	spec.MinWorkers, spec.MaxWorkers, spec.BatchSize, spec.Where = least, 8, cluster.BatchSize{Min: 64, Max: 64}, where
	reply, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec})
	if err != nil || !slices.Equal(reply.Warnings, want) {
		t.Errorf("%s: got %q, %v, want %q", name, reply.Warnings, err, want)
	}
}
