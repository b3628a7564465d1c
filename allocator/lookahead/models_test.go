package lookahead_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/cluster"
)

// Work takes as long as it does on the model of the devices that a job has, and a job that waits is
// predicted to start on whatever model is free first.
func TestDevicesOfTwoModels(t *testing.T) {
	a, b, c := runs("a", 0, 10*time.Minute), runs("b", 0, time.Hour), waits("c", time.Hour)
	a.StartCosts = []time.Duration{time.Hour} // it stays where it is
	b.Present.Placements = []cluster.Placement{{Node: "n2", Devices: []cluster.DeviceID{"e0"}}}
	q := asking(1, a, b, c)
	q.Input.Nodes[0].Devices[0].Model = "k80"
	q.Input.Nodes = append(q.Input.Nodes, cluster.Node{ID: "n2", Devices: []cluster.Device{{ID: "e0", Model: "v100", Health: cluster.Healthy}}})
	for i := range q.Input.Jobs {
		q.Input.Jobs[i].Models = []allocator.OnModel{{Model: "k80", Rate: 0.5}, {Model: "v100", Rate: 4}}
	}
	// a takes 20 minutes on its k80, b a quarter of an hour on its v100.
	if s := look(t, q, lookahead.Config{})[0]; !near(s.At, 15*time.Minute) {
		t.Errorf("starts in %v", s.At.Sub(now))
	}
	q.Input.Jobs[2].Models = q.Input.Jobs[2].Models[:1] // c may not have a v100
	if s := look(t, q, lookahead.Config{})[0]; !near(s.At, 20*time.Minute) {
		t.Errorf("on a k80 alone it starts in %v", s.At.Sub(now))
	}
}
