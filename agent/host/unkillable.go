package host

import (
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// survivors are the processes of a run that SIGKILL does not end, by its shim or
// by the last sweep; killPending says that they never run code of their own again.
func (r *hosted) survivors() (pids []int, killPending bool) {
	switch {
	case r.sweep.done, r.shim == agent.Absent: // of one without a run the devices are not known
		return nil, false
	case r.sweep.unkillable != nil:
		return r.sweep.unkillable.PIDs, r.sweep.unkillable.KillPending
	case r.report != nil:
		return r.report.Unkillable, r.report.KillPending
	}
	return nil, false
}

// killPending are the survivors on a node that the job need not wait for: they run no
// code any more, and the node has recorded that their devices are withheld.
func (r *hosted) killPending(on cluster.NodeID, recorded record.Inventory) []int {
	pids, pending := r.survivors()
	member, _, _ := r.order.World.Member(on)
	if pending && r.binding == agent.Unbound { // it waits for its plan, and has none
		return pids
	}
	if !pending || len(member.Devices) == 0 || slices.ContainsFunc(member.Devices, func(d cluster.DeviceID) bool { return !withheld(recorded, d) }) {
		return nil
	}
	return pids
}

// withheld reports whether a device is one that a node gives to nothing new.
func withheld(inventory record.Inventory, device cluster.DeviceID) bool {
	return !slices.ContainsFunc(inventory.Devices, func(d cluster.Device) bool { return d.ID == device && d.Health == cluster.Healthy })
}

// stuck describes the survivors.
func (r *hosted) stuck() string {
	pids, pending := r.survivors()
	if len(pids) == 0 {
		return ""
	}
	text := fmt.Sprintf("processes %s survive SIGKILL and keep their devices: see what they wait for in /proc/PID/stack; reboot the node if that does not pass", units.List(pids))
	if pending {
		return text + ". They run no code of their own any more, so the job does not wait for them"
	}
	return text
}
