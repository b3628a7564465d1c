package host

import (
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// survivors are the processes of a run that SIGKILL does not end, by its shim or
// by the last sweep; doomed says that they never run code of their own again.
func (r *run) survivors() (pids []int, doomed bool) {
	switch {
	case r.sweep.done, r.shim == agent.Absent: // of one without a run nobody knows which devices it has
		return nil, false
	case r.sweep.unkillable != nil:
		return r.sweep.unkillable.PIDs, r.sweep.unkillable.Doomed
	case r.report != nil:
		return r.report.Unkillable, r.report.Doomed
	}
	return nil, false
}

// doomed are the survivors that the job need not wait for: they do nothing any
// more, and nobody is given their devices, as the node has recorded.
func (rs *runs) doomed(r *run) []int {
	pids, doomed := r.survivors()
	member, _, _ := r.order.World.Member(rs.cfg.Node)
	if !doomed || len(member.Devices) == 0 || slices.ContainsFunc(member.Devices, func(d cluster.DeviceID) bool { return !withheld(rs.records.self().Inventory.Value, d) }) {
		return nil
	}
	return pids
}

// withheld reports whether a device is one that a node gives to nothing new.
func withheld(inventory record.Inventory, device cluster.DeviceID) bool {
	return !slices.ContainsFunc(inventory.Devices, func(d cluster.Device) bool { return d.ID == device && d.Health == cluster.Healthy })
}

// stuck tells people of survivors.
func (r *run) stuck() string {
	pids, doomed := r.survivors()
	if len(pids) == 0 {
		return ""
	}
	text := fmt.Sprintf("processes %v survive SIGKILL and keep their devices: see what they wait for in /proc/PID/stack; reboot the node if that does not pass", pids)
	if doomed {
		return text + ". They run no code of their own any more, so the job does not wait for them"
	}
	return text
}
