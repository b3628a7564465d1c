package policy_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// What a job was promised in the running slot it gets before all others, whatever their
// deadlines, also where the rest cannot be planned at all: before one with an earlier
// deadline, and before one whose promise is for later slots.
func TestPromisedDevicesComeFirst(t *testing.T) {
	node := cluster.Node{ID: "n", Devices: []cluster.Device{{ID: "a", Health: cluster.Healthy}, {ID: "b", Health: cluster.Healthy}}}
	job := func(id cluster.JobID, deadline time.Duration) allocator.JobView {
		return allocator.JobView{
			ID: id, Sizes: []int{2}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch.Add(-time.Minute),
			Deadline: epoch.Add(deadline), Work: allocator.Left(time.Hour),
		}
	}
	for _, name := range []string{"elasticflow", "edf"} {
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range []time.Duration{time.Minute, time.Microsecond} { // of which there are more to the last deadline than can be counted
			in := allocator.Input{Now: epoch, Nodes: []cluster.Node{node}, Interval: slot, Jobs: []allocator.JobView{
				job("early", time.Hour), job("later", 4*time.Hour), job("now", 5*time.Hour), job("never", 100*24*time.Hour),
			}}
			in.Jobs[1].Promise = &allocator.Promise{Due: epoch.Add(4 * time.Hour), First: slot, Slot: slot, Profile: cluster.Profile{{}, {From: 80, Devices: 2}, {From: 160}}}
			in.Jobs[2].Promise = &allocator.Promise{Due: epoch.Add(5 * time.Hour), First: slot, Slot: slot, Profile: cluster.Profile{{Devices: 2}, {From: 80}}}
			got := ask(t, p, in).Decisions
			for i, d := range got {
				if want := []int{0, 0, 2, 0}[i]; d.Workers != want {
					t.Errorf("%s, slots of %v: %+v", name, slot, got)
				}
			}
		}
	}
}
