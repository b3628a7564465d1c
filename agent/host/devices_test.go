package host

import (
	"errors"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// A driver that does not answer takes no device away at once: jobs run on, and
// only when it has not answered for long do the devices count as unhealthy.
func TestADriverThatDoesNotAnswerTakesNothingAwayAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t.Context(), Config{Log: quiet()}, nil, nil)
	device := cluster.Device{ID: "GPU-1", Model: "A100", MemoryBytes: 1 << 30, Health: cluster.Healthy}
	hung := errors.New("the driver did not answer")
	check := func(when, problem string, want ...cluster.Device) {
		t.Helper()
		if got := n.devices.seen; got.Problem != problem || len(got.Devices) != len(want) || len(want) > 0 && got.Devices[0] != want[0] {
			t.Errorf("%s: got %+v, want %+v and problem %q", when, *got, want, problem)
		}
	}
	n.devices.surveyed(nvml.Survey{}, hung)
	check("before anything was seen", hung.Error())
	n.devices.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: device}}}, nil)
	check("seen", "", device)
	n.devices.surveyed(nvml.Survey{}, hung)
	check("hangs", hung.Error(), device)
	n.devices.failing = time.Now().Add(-2 * blindFor)
	n.devices.surveyed(nvml.Survey{}, hung)
	sick := device
	sick.Health, sick.Problem = cluster.Unhealthy, "cannot be looked at"
	check("hangs for long", hung.Error(), sick)
	n.devices.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: device}}}, nil)
	check("answers again", "", device)
	if !n.devices.failing.IsZero() {
		t.Error("still counted as failing")
	}
	const upgraded = "reload the driver"
	n.devices.surveyed(nvml.Survey{Problem: upgraded, Refused: true}, nil)
	if check("refuses as a whole", upgraded, device); n.devices.unseen != upgraded {
		t.Errorf("new work may start: %q", n.devices.unseen)
	}
	n.devices.surveyed(nvml.Survey{Problem: "device 0: fell off the bus"}, nil)
	if check("answers, and that the device is lost", "device 0: fell off the bus"); n.devices.unseen != "" {
		t.Errorf("refused still: %q", n.devices.unseen)
	}
}

// A library that answers that it cannot be used, as after an upgrade of the
// driver's package, takes nothing from what runs: not even a fresh agent, which
// has seen no device itself, says that its runs' devices are gone.
func TestALibraryThatRefusesTakesNothingFromWhatRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sc := &scene{on: map[cluster.DeviceID][]nvml.Process{}}
	s := f.settings("n1")
	s.Devices = sc
	stop := f.agent(s)
	j := f.job("train", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	const why = "reload the driver"
	sc.refuse(why)
	f.published(0, cluster.Healthy, why)
	f.published(1, cluster.Unhealthy, why)
	stop()
	f.agent(s)
	f.inventory(func(inv record.Inventory) bool {
		return inv.Problem == why && len(inv.Devices) == 1 && inv.Devices[0].ID == "SIM-n1-0" && inv.Devices[0].Health == cluster.Healthy
	})
	sc.refuse("")
	f.published(0, cluster.Healthy, "")
	f.published(1, cluster.Healthy, "")
	f.commit(record.Delete(record.PermitKey(j.Job, j.Generation)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
}
