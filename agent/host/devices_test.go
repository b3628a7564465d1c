package host

import (
	"errors"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
)

// A driver that does not answer takes no device away at once: jobs run on, and
// only when nobody could look for long do the devices count as sick.
func TestADriverThatDoesNotAnswerTakesNothingAwayAtOnce(t *testing.T) {
	n := &node{}
	device := cluster.Device{ID: "GPU-1", Model: "A100", MemoryBytes: 1 << 30, Health: cluster.Healthy}
	hung := errors.New("the driver did not answer")
	check := func(when, problem string, want ...cluster.Device) {
		t.Helper()
		if got := n.devices.seen; got.Problem != problem || len(got.Devices) != len(want) || len(want) > 0 && got.Devices[0] != want[0] {
			t.Errorf("%s: got %+v, want %+v and problem %q", when, *got, want, problem)
		}
	}
	n.surveyed(nvml.Survey{}, hung)
	check("before anything was seen", hung.Error())
	n.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: device}}}, nil)
	check("seen", "", device)
	n.surveyed(nvml.Survey{}, hung)
	check("hangs", hung.Error(), device)
	n.devices.failing = time.Now().Add(-2 * blindFor)
	n.surveyed(nvml.Survey{}, hung)
	sick := device
	sick.Health, sick.Problem = cluster.Unhealthy, "cannot be looked at"
	check("hangs for long", hung.Error(), sick)
	n.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: device}}}, nil)
	check("answers again", "", device)
	if !n.devices.failing.IsZero() {
		t.Error("still counted as failing")
	}
}
