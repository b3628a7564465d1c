package allocator_test

import (
	"fmt"
	"testing"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// Each excluded node counts once, in whatever order and however often it is named.
func TestUsableForCountsExcludedNodesOnce(t *testing.T) {
	d := allocator.NewDevices(question(4))
	for _, c := range []struct {
		excluded []cluster.NodeID
		want     int
	}{
		{nil, 8},
		{[]cluster.NodeID{"n0000"}, 6},
		{[]cluster.NodeID{"n0000", "n0000", "n0002"}, 4},
		{[]cluster.NodeID{"n0002", "n0000", "n0002", "n0000"}, 4},
		{[]cluster.NodeID{"n0003", "n9", "n0001", "n0000", "n0002"}, 0},
	} {
		if got := d.UsableFor(allocator.JobView{Excluded: c.excluded}); got != c.want {
			t.Errorf("without %v %d devices are usable, want %d", c.excluded, got, c.want)
		}
	}
}

// A job that all nodes but one refuse, as by its place: linear in the nodes.
func BenchmarkUsableFor(b *testing.B) {
	in := question(1000)
	d := allocator.NewDevices(in)
	j := allocator.JobView{}
	for _, n := range in.Nodes[1:] {
		j.Excluded = append(j.Excluded, n.ID)
	}
	for b.Loop() {
		if d.UsableFor(j) != 2 {
			b.Fatal("miscounted")
		}
	}
}

// question has so many nodes of two devices.
func question(nodes int) allocator.Input {
	var in allocator.Input
	for i := range nodes {
		n := cluster.Node{ID: cluster.NodeID(fmt.Sprintf("n%04d", i))}
		for k := range 2 {
			n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s-%d", n.ID, k)), Health: cluster.Healthy})
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}
