package devices

import (
	"strings"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// files is what is known of the devices' files.
type files struct {
	how    string // how workers here are kept from devices that are not theirs, as tried
	minors map[cluster.DeviceID]uint32
	silent []string // devices of which the driver does not tell the file
	none   bool     // the devices have no files
}

// learn takes in what the driver tells. What a device was told to be stays, where it
// does not answer now.
func (f *files) learn(s nvml.Survey) {
	f.none = s.Simulated || len(s.Devices) == 0
	minors := map[cluster.DeviceID]uint32{}
	f.silent = nil
	for _, r := range s.Devices {
		was, known := f.minors[r.ID]
		switch {
		case r.Minor != nil:
			minors[r.ID] = *r.Minor
		case known:
			minors[r.ID] = was
		default:
			f.silent = append(f.silent, string(r.ID))
		}
	}
	f.minors = minors
}

// enforced is what the node publishes.
func (f *files) enforced() string {
	switch {
	case f.none || f.minors == nil:
		return ""
	case len(f.silent) > 0:
		return record.NotEnforced(" for jobs with " + strings.Join(f.silent, ", ") + " (the driver does not tell which file is whose)")
	}
	return f.how
}

// of is what a shim is told for a run with these devices; nil = they have no files.
func (f *files) of(devices []cluster.DeviceID) *run.DeviceFiles {
	if f.none {
		return nil
	}
	d := &run.DeviceFiles{Major: nvml.Major, Last: nvml.LastMinor, Granted: []uint32{}}
	for _, id := range devices {
		minor, known := f.minors[id]
		if !known {
			d.Unknown = "the driver has not told which file is that of " + string(id)
			return d
		}
		d.Granted = append(d.Granted, minor)
	}
	return d
}
