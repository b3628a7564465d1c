package devices

import (
	"sync/atomic"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/nvml"
)

// readings is one look at the devices, kept to be shown.
type readings struct {
	at     time.Time
	survey nvml.Survey
	guests map[int]found // who the processes are, as far as that is known, by pid
}

// lastLook is the newest look at the devices, for other goroutines to read.
type lastLook struct{ p atomic.Pointer[readings] }

// keep lets a look be shown, with what is known of the processes that it found and
// not of any other's: another look may have found others of the same pids.
func (l *lastLook) keep(r *readings) {
	if last := l.p.Load(); last == nil || !last.at.After(r.at) {
		l.p.Store(r)
	}
}

// readings is what the devices were doing when they were last looked at. It may
// be called from any goroutine: it looks at nothing.
func (l *lastLook) readings() api.NodeReadings {
	last := l.p.Load()
	if last == nil {
		return api.NodeReadings{Missing: "its devices have not been looked at yet"}
	}
	out := api.NodeReadings{AgeS: time.Since(last.at).Seconds(), Driver: last.survey.Driver, Devices: []api.DeviceReading{}}
	for _, l := range last.survey.Links {
		out.Links = append(out.Links, api.DeviceLink{A: string(l.A), B: string(l.B), NVLinks: l.NVLinks, Path: l.Path})
	}
	for _, r := range last.survey.Devices {
		if !last.survey.Simulated {
			out.Places = append(out.Places, placeOf(r))
		}
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
		for _, p := range r.Processes {
			g := last.guests[p.PID]
			d.Processes = append(d.Processes, api.DeviceProcess{
				PID: p.PID, MemoryBytes: p.MemoryBytes, Graphics: p.Graphics, Command: g.Command, User: g.User, Job: string(g.Run.Job),
			})
		}
		out.Devices = append(out.Devices, d)
	}
	switch {
	case len(out.Devices) > 0:
	case last.survey.Simulated:
		out.Missing, out.Simulated = "simulated devices have none", true
	case last.survey.Problem != "" && len(last.survey.Devices) == 0:
		out.Missing = last.survey.Problem
	case len(last.survey.Devices) == 0:
		out.Missing = "it has no devices"
	default:
		out.Missing = "none of its devices answers"
	}
	return out
}

func placeOf(r nvml.Reading) api.DevicePlace {
	p := api.DevicePlace{ID: string(r.ID), Index: r.Index, PCI: r.PCI}
	if r.NUMA >= 0 {
		p.NUMA = &r.NUMA
	}
	return p
}
