package devices

import (
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
)

// A driver that does not answer takes no device away at once: jobs run on, and
// only when it has not answered for long do the devices count as unhealthy.
func TestADriverThatDoesNotAnswerTakesNothingAwayAtOnce(t *testing.T) {
	t.Parallel()
	ds := New(loop.New(t.Context(), zerolog.Nop()), Config{}, func() []Run { return nil })
	device := cluster.Device{ID: "GPU-1", Model: "A100", MemoryBytes: 1 << 30, Health: cluster.Healthy}
	hung := errors.New("the driver did not answer")
	check := func(when, problem string, want ...cluster.Device) {
		t.Helper()
		if got := ds.seen; got.Problem != problem || len(got.Devices) != len(want) || len(want) > 0 && got.Devices[0] != want[0] {
			t.Errorf("%s: got %+v, want %+v and problem %q", when, *got, want, problem)
		}
	}
	ds.surveyed(nvml.Survey{}, hung)
	check("before anything was seen", hung.Error())
	ds.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: device}}}, nil)
	check("seen", "", device)
	ds.surveyed(nvml.Survey{}, hung)
	check("hangs", hung.Error(), device)
	ds.failing = time.Now().Add(-2 * blindFor)
	ds.surveyed(nvml.Survey{}, hung)
	sick := device
	sick.Health, sick.Problem = cluster.Unhealthy, "cannot be looked at"
	check("hangs for long", hung.Error(), sick)
	ds.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: device}}}, nil)
	check("answers again", "", device)
	if !ds.failing.IsZero() {
		t.Error("still counted as failing")
	}
	const upgraded = "reload the driver"
	ds.surveyed(nvml.Survey{Problem: upgraded, Refused: true}, nil)
	if check("refuses as a whole", upgraded, device); ds.unseen != upgraded {
		t.Errorf("new work may start: %q", ds.unseen)
	}
	ds.surveyed(nvml.Survey{Problem: "device 0: fell off the bus"}, nil)
	if check("answers, and that the device is lost", "device 0: fell off the bus"); ds.unseen != "" {
		t.Errorf("refused still: %q", ds.unseen)
	}
}
