package agent

import (
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Stock is what a node knows of its devices when it says what it has to give.
type Stock struct {
	Devices []cluster.Device // as the driver tells
	Problem string           // why devices are missing
	// Location is where the node is in the network, and TopologyProblem why groups that it was told are not used.
	Location, TopologyProblem string
	Addr                      string // where workers are reached, where that is not the node's own address
	// Cut says why workers here could not meet others; empty if they can.
	Cut string
	// Unseen says why the devices cannot be used by anything new, as the driver's
	// library refuses as a whole; empty if it does not.
	Unseen string
	// Taken devices have a generation here that may have processes.
	Taken map[cluster.DeviceID]bool
	// Occupied says of devices who is on them and should not be.
	Occupied map[cluster.DeviceID]string
	// Locks says of devices who has an old lock of theirs, which hinders nothing.
	Locks map[cluster.DeviceID]string
	// Files says how workers are kept from devices that are not theirs.
	Files string
	// PricePerHour is what the node costs while it runs something.
	PricePerHour float64
	// Stuck devices have processes of a job that do not die.
	Stuck map[cluster.DeviceID]cluster.JobID
	// Unswept devices may have such processes: what an earlier agent has left there
	// is not known yet. Until then the node goes by what is Recorded.
	Unswept  map[cluster.DeviceID]bool
	Recorded record.Inventory
}

// Inventory is what the node publishes. What hinders only new work leaves taken
// devices healthy, with the problem beside: a job that runs is not sent away
// because of it.
func (s Stock) Inventory() record.Inventory {
	inventory := record.Inventory{
		Devices: slices.Clone(s.Devices), Problem: joined(s.Problem, s.Cut), Addr: s.Addr, DeviceFiles: s.Files,
		Location: s.Location, TopologyProblem: s.TopologyProblem, PricePerHour: s.PricePerHour,
	}
	for i := range inventory.Devices {
		d := &inventory.Devices[i]
		if d.Health != cluster.Healthy {
			continue
		}
		if job, stuck := s.Stuck[d.ID]; stuck {
			d.Health, d.Problem = cluster.Unhealthy, "a process of job "+string(job)+" on it does not die"
			continue
		}
		if was, withheld := s.withheld(d.ID); withheld && s.Unswept[d.ID] {
			d.Health, d.Problem = cluster.Unhealthy, was
			continue
		}
		d.Problem = joined(s.Occupied[d.ID], s.Unseen, s.Cut)
		if d.Problem != "" && !s.Taken[d.ID] {
			d.Health = cluster.Unhealthy
		}
		d.Problem = joined(d.Problem, s.Locks[d.ID])
	}
	return inventory
}

// withheld reports whether a device is recorded as unfit, and why.
func (s Stock) withheld(id cluster.DeviceID) (why string, is bool) {
	i := slices.IndexFunc(s.Recorded.Devices, func(d cluster.Device) bool { return d.ID == id })
	if i < 0 || s.Recorded.Devices[i].Health == cluster.Healthy {
		return "", false
	}
	return s.Recorded.Devices[i].Problem, true
}

// joined puts what is said into one line.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}
