package host

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// twoDevices is a source one of whose devices may be sick.
type twoDevices struct{ sick *atomic.Bool }

func (s twoDevices) Survey(context.Context) (nvml.Survey, error) {
	a := cluster.Device{ID: "a", Health: cluster.Healthy}
	b := cluster.Device{ID: "b", Health: cluster.Healthy}
	if s.sick.Load() {
		b.Health, b.Problem = cluster.Unhealthy, "fell off the bus"
	}
	return nvml.Survey{Devices: []nvml.Reading{{Device: a}, {Device: b}}}, nil
}

func (twoDevices) Close() error { return nil }

// A node tells of itself with what it tells of, numbered on over its lives, and
// says goodbye; and its watchers see the same.
func TestANodeTells(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	var sick atomic.Bool
	var vitals atomic.Pointer[Vitals]
	s.Leave, s.Devices, s.Vitals = true, twoDevices{&sick}, func(v Vitals) { vitals.Store(&v) }
	told := func(seq uint64, kind record.EventKind) (record.Event, int64) {
		t.Helper()
		var e record.Event
		kv := f.awaitKV(record.NodeEventKey("n1", seq), func(kv record.KV) bool {
			return json.Unmarshal(kv.Value, &e) == nil && e.Seq == seq
		})
		if e.Kind != kind || e.Node != "n1" || e.At.IsZero() || len(e.Why) == 0 {
			t.Errorf("event %d is %+v, want %s", seq, e, kind)
		}
		return e, kv.ModRevision
	}
	written := func(key string) int64 {
		return f.awaitKV(key, func(record.KV) bool { return true }).ModRevision
	}

	stop := f.agent(s)
	if _, rev := told(1, record.NodeJoined); rev != f.alive("n1") {
		t.Error("that the node has joined is told apart from its joining")
	}
	f.until("the node's vitals", func() bool {
		v := vitals.Load()
		return v != nil && v.InCluster && !v.Renewed.IsZero() && v.Devices[record.DeviceFree] == 2 && v.Gossip["alive"] == 1
	})
	sick.Store(true)
	if e, rev := told(2, record.DeviceProblem); e.Device != "b" || e.Why.String() != "b: fell off the bus" || rev != written(record.InventoryKey("n1")) {
		t.Errorf("of the sick device was told %+v, at %d", e, rev)
	}
	f.until("the vitals of a sick node", func() bool { return vitals.Load().Devices[record.DeviceUnfit] == 1 })
	sick.Store(false)
	told(3, record.DeviceWell)
	stop()
	told(4, record.NodeLeft)
	if !f.absent(record.AliveKey("n1")) {
		t.Error("a node that has left is alive")
	}
	f.agent(s)
	told(5, record.NodeJoined)
}
