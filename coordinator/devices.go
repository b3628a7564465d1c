package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// usable reports whether the device may be given to new work of the job.
func usable(in situation, d deviceRef, refused map[cluster.NodeID]string) bool {
	_, no := refused[d.node]
	healthy, _ := in.nodes().health(d)
	return !no && healthy && !in.node(d.node).Cordon.Exists()
}

// holders returns the jobs other than this to which the device is granted, or will be if a START lands.
func holders(in situation, d deviceRef, job cluster.JobID) []cluster.JobID {
	var out []cluster.JobID
	for _, id := range in.nodes().holders(d) {
		if id != job {
			out = append(out, id)
		}
	}
	if id, waits := in.sums().ungranted[d]; waits && id != job {
		out = append(out, id)
	}
	if in.claimed(d.device, job) {
		out = append(out, "a start in flight")
	}
	return out
}

// free reports whether no job but this has the device.
func free(in situation, d deviceRef, job cluster.JobID) bool {
	for _, id := range in.nodes().holders(d) {
		if id != job {
			return false
		}
	}
	id, waits := in.sums().ungranted[d]
	return (!waits || id == job) && !in.claimed(d.device, job)
}

// idle reports whether a device could be given to new work at once.
func idle(in situation) bool {
	for _, n := range in.live() {
		if n.Cordoned {
			continue
		}
		for _, d := range n.Devices {
			if d.Health == cluster.Healthy && !in.promised(d.ID, "") && free(in, deviceRef{n.ID, d.ID}, "") {
				return true
			}
		}
	}
	return false
}

// spare returns the nodes with only those devices that the job could start on now.
func spare(in situation) []cluster.Node {
	nodes, refused := slices.Clone(in.live()), refusedBy(in)
	for i, n := range nodes {
		nodes[i].Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d cluster.Device) bool {
			ref := deviceRef{n.ID, d.ID}
			return !usable(in, ref, refused) || !free(in, ref, in.ID) || in.promised(d.ID, in.ID)
		})
	}
	return nodes
}
