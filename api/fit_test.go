package api

import (
	"slices"
	"testing"

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
	} {
		spec := goodSpec(c.name)
		spec.MinWorkers, spec.MaxWorkers, spec.BatchSize, spec.Where = c.least, 8, cluster.BatchSize{Min: 64, Max: 64}, c.where
		reply, err := a.Submit(t.Context(), SubmitRequest{NewRequestID(), spec})
		if err != nil || !slices.Equal(reply.Warnings, c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.name, reply.Warnings, err, c.want)
		}
	}
}
