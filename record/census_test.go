package record_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func TestCensus(t *testing.T) {
	m := mirror(t, nil)
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	rev := int64(0)
	put := func(key string, v any) {
		rev++
		change(t, m, record.Change{KV: record.KV{Key: key, Value: record.Put(key, v).Value, CreateRevision: rev, ModRevision: rev}})
	}
	node := func(id cluster.NodeID, alive bool, devices ...cluster.Device) {
		put(record.InventoryKey(id), record.Inventory{Devices: devices})
		if alive {
			put(record.AliveKey(id), record.Alive{})
		}
	}
	well := func(id cluster.DeviceID) cluster.Device { return cluster.Device{ID: id, Health: cluster.Healthy} }
	node("n1", true, well("a"), well("b"), cluster.Device{ID: "c", Health: cluster.Unhealthy})
	node("n2", true, well("d"), well("e"))
	node("n3", false, well("f"))
	node("n5", true, well("g"), well("h"), well("i"))
	put(record.CordonKey("n2"), record.Cordon{Reason: "fans"})
	put(record.AckKey("n4", "old-aaaaaa", 1, record.AckStopped), record.Stopped{}) // all that is left of n4
	put(record.GrantKey("n1", "j-aaaaaa"), record.Grant{Generation: 2, Devices: []cluster.DeviceID{"a"}})
	put(record.GrantKey("n2", "j-aaaaaa"), record.Grant{Generation: 2, Devices: []cluster.DeviceID{"d"}})

	put(record.SpecKey("j-aaaaaa"), record.Submitted{ID: "j-aaaaaa"})
	put(record.StateKey("j-aaaaaa"), record.State{Phase: cluster.Running, Generation: 2, Restarts: 1, Trained: cluster.Duration(time.Minute)})
	put(record.PlanKey("j-aaaaaa", 2), record.Plan{At: noon.Add(-30 * time.Second), World: cluster.World{Members: []cluster.Member{
		{Node: "n1", Devices: []cluster.DeviceID{"a"}}, {Node: "n2", Devices: []cluster.DeviceID{"d"}, FirstRank: 1},
	}}})
	put(record.CommittedKey("j-aaaaaa"), record.Checkpoint{Step: 100})
	put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{"j-aaaaaa": {Generation: 2, Step: 130, StepsPerSecond: 2.5}}})
	put(record.ProgressKey("n2"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{"j-aaaaaa": {Generation: 1, Step: 999}}}) // lost since
	put(record.SpecKey("k-aaaaaa"), record.Submitted{ID: "k-aaaaaa"})
	put(record.StateKey("k-aaaaaa"), record.State{Phase: cluster.Queued})

	got := m.Census(noon)
	want := record.Census{
		Jobs: map[cluster.Phase]int{}, Nodes: map[record.NodeState]int{record.NodeInService: 2, record.NodeCordoned: 1, record.NodeGone: 1},
		Devices: map[record.DeviceState]int{record.DeviceFree: 4, record.DeviceInUse: 2, record.DeviceUnfit: 2, record.DeviceGone: 1},
		// b alone: of n5 a job can have all.
		Scattered: 1,
		Active:    []record.JobCensus{{ID: "j-aaaaaa", Workers: 2, Steps: 130, StepsPerSecond: 2.5, Trained: 90 * time.Second, Restarts: 1}},
	}
	for _, p := range cluster.Phases() {
		want.Jobs[p] = 0
	}
	want.Jobs[cluster.Running], want.Jobs[cluster.Queued] = 1, 1
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if share, ok := got.Fragmentation(); !ok || share != 0.25 {
		t.Errorf("fragmentation is %v, %t, want 0.25", share, ok)
	}
	if share, ok := (record.Census{}).Fragmentation(); ok {
		t.Errorf("without a free device fragmentation is %v", share)
	}
}
