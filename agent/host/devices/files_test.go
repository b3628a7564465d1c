package devices

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

func TestWhichFilesAreWhoseIsNotGuessed(t *testing.T) {
	t.Parallel()
	device := func(id string, minor ...uint32) nvml.Reading {
		r := nvml.Reading{Device: cluster.Device{ID: cluster.DeviceID(id)}}
		if len(minor) > 0 {
			r.Minor = &minor[0]
		}
		return r
	}
	f := files{how: record.DeviceFilter}
	a, b := []cluster.DeviceID{"a"}, []cluster.DeviceID{"a", "b"}
	if d := f.of(a); d == nil || d.Unknown == "" || f.enforced() != "" {
		t.Errorf("before a look: %+v, %q", d, f.enforced())
	}
	f.learn(nvml.Survey{Devices: []nvml.Reading{device("a", 3), device("b")}})
	if d := f.of(a); d.Unknown != "" || len(d.Granted) != 1 || d.Granted[0] != 3 || d.Major != 195 || d.Last != 253 {
		t.Errorf("of one that tells: %+v", d)
	}
	if d := f.of(b); !strings.Contains(d.Unknown, "b") || !strings.HasPrefix(f.enforced(), record.NotEnforced(" for jobs with b")) {
		t.Errorf("of one that does not: %+v, %q", d, f.enforced())
	}
	f.learn(nvml.Survey{Devices: []nvml.Reading{device("a"), device("b", 0)}})
	if d := f.of(b); d.Unknown != "" || len(d.Granted) != 2 || f.enforced() != record.DeviceFilter {
		t.Errorf("of one that has told before: %+v, %q", d, f.enforced())
	}
	f.learn(nvml.Survey{Devices: []nvml.Reading{device("a")}, Simulated: true})
	if d := f.of(a); d != nil || f.enforced() != "" {
		t.Errorf("simulated: %+v, %q", d, f.enforced())
	}
}
