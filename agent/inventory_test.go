package agent

import (
	"reflect"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func TestWhatANodeHasToGive(t *testing.T) {
	device := func(id string, health cluster.Health, problem string) cluster.Device {
		return cluster.Device{ID: cluster.DeviceID(id), Health: health, Problem: problem}
	}
	seen := []cluster.Device{device("a", cluster.Healthy, ""), device("b", cluster.Healthy, ""), device("c", cluster.Unhealthy, "fell off the bus")}
	taken := map[cluster.DeviceID]bool{"a": true, "c": true}
	for name, c := range map[string]struct {
		stock Stock
		want  record.Inventory
	}{
		"as it is": {
			Stock{Addr: "10.1.0.1", Taken: taken},
			record.Inventory{Devices: seen, Addr: "10.1.0.1"},
		},
		"a process does not die": {
			Stock{Taken: taken, Stuck: map[cluster.DeviceID]cluster.JobID{"a": "j"}},
			record.Inventory{Devices: []cluster.Device{device("a", cluster.Unhealthy, "a process of job j on it does not die"), seen[1], seen[2]}},
		},
		"what is left on it is not known yet: it stays as it was recorded": {
			Stock{
				Unswept: map[cluster.DeviceID]bool{"a": true},
				Recorded: record.Inventory{Devices: []cluster.Device{
					device("a", cluster.Unhealthy, "a process of job j on it does not die"), device("b", cluster.Unhealthy, "in use by 2"),
				}},
			},
			record.Inventory{Devices: []cluster.Device{device("a", cluster.Unhealthy, "a process of job j on it does not die"), seen[1], seen[2]}},
		},
		"what is left on a device that was fit is not known yet": {
			Stock{Unswept: map[cluster.DeviceID]bool{"a": true, "b": true}, Recorded: record.Inventory{Devices: seen[:1]}},
			record.Inventory{Devices: seen},
		},
		"a stranger: what runs stays, nothing new comes": {
			Stock{Taken: taken, Occupied: map[cluster.DeviceID]string{"a": "in use by 1", "b": "in use by 2", "c": "in use by 3"}},
			record.Inventory{Devices: []cluster.Device{
				device("a", cluster.Healthy, "in use by 1"), device("b", cluster.Unhealthy, "in use by 2"), seen[2],
			}},
		},
		"an old lock is held: nothing is kept away": {
			Stock{Taken: taken, Locks: map[cluster.DeviceID]string{"a": "open in 1", "b": "open in 2", "c": "open in 3"}},
			record.Inventory{Devices: []cluster.Device{
				device("a", cluster.Healthy, "open in 1"), device("b", cluster.Healthy, "open in 2"), seen[2],
			}},
		},
		"cut off: what runs stays, nothing new comes": {
			Stock{Taken: taken, Cut: "ib0 is down"},
			record.Inventory{Problem: "ib0 is down", Devices: []cluster.Device{
				device("a", cluster.Healthy, "ib0 is down"), device("b", cluster.Unhealthy, "ib0 is down"), seen[2],
			}},
		},
		"cut off, and devices are missing": {
			Stock{Problem: "no driver", Cut: "ib0 is down"},
			record.Inventory{Problem: "no driver; ib0 is down", Devices: []cluster.Device{
				device("a", cluster.Unhealthy, "ib0 is down"), device("b", cluster.Unhealthy, "ib0 is down"), seen[2],
			}},
		},
		"the driver's library refuses: what runs stays, nothing new comes": {
			Stock{Problem: "reload the driver", Unseen: "reload the driver", Taken: taken},
			record.Inventory{Problem: "reload the driver", Devices: []cluster.Device{
				device("a", cluster.Healthy, "reload the driver"), device("b", cluster.Unhealthy, "reload the driver"), seen[2],
			}},
		},
	} {
		c.stock.Devices = seen
		if got := c.stock.Inventory(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
	if seen[0].Problem != "" || seen[1].Health != cluster.Healthy {
		t.Errorf("what was seen has been changed: %+v", seen)
	}
}
