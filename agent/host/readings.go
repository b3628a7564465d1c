package host

import (
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
)

// readings is one look at the devices, kept for people.
type readings struct {
	at     time.Time
	survey nvml.Survey
	guests map[cluster.DeviceID][]found // who the processes are; nil = not known yet
}

// readings is what the devices were doing when they were last looked at. It may
// be called by anybody at any time: it looks at nothing.
func (n *node) readings() api.NodeReadings {
	last := n.devices.read.Load()
	if last == nil {
		return api.NodeReadings{Missing: "its devices have not been looked at yet"}
	}
	out := api.NodeReadings{AgeS: time.Since(last.at).Seconds(), Driver: last.survey.Driver, Devices: []api.DeviceReading{}}
	for _, r := range last.survey.Devices {
		if !r.Known() {
			continue
		}
		d := api.DeviceReading{
			ID: string(r.ID), BusyPercent: r.Busy, MemoryUsedBytes: r.MemoryUsedBytes, TemperatureC: r.TemperatureC,
			Slowed: r.Slowed, UncorrectedECC: r.UncorrectedECC, Warning: r.Warning,
		}
		if x := r.LastXid; x != nil {
			d.LastXid = &api.LastXid{Code: x.Code, AgeS: time.Since(x.At).Seconds()}
		}
		for i, p := range r.Processes {
			x := api.DeviceProcess{PID: p.PID, MemoryBytes: p.MemoryBytes, Graphics: p.Graphics}
			if guests := last.guests[r.ID]; i < len(guests) {
				x.Command, x.User, x.Job = guests[i].Command, guests[i].User, string(guests[i].Run.Job)
			}
			d.Processes = append(d.Processes, x)
		}
		out.Devices = append(out.Devices, d)
	}
	switch {
	case len(out.Devices) > 0:
	case last.survey.Simulated:
		out.Missing, out.Simulated = "simulated devices have none", true
	case len(last.survey.Devices) == 0:
		out.Missing = "it has no devices"
	default:
		out.Missing = "none of its devices answers"
	}
	return out
}
