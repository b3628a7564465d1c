package cluster

import (
	"slices"
	"strings"
)

// Health says whether a device may be given to new work.
type Health string

// The states of a device.
const (
	Healthy   Health = "healthy"
	Unhealthy Health = "unhealthy"
)

// Device is one GPU (or a simulated stand-in) as its node's agent sees it.
type Device struct {
	ID          DeviceID `json:"id"`
	Model       string   `json:"model"`
	MemoryBytes uint64   `json:"memory_bytes"`
	Health      Health   `json:"health"`
	// Problem says what is wrong with the device. One that is healthy all the same
	// keeps what runs on it.
	Problem string `json:"problem,omitempty"`
	// Group is the NVLink or PCIe group of its node that the device is in, and NUMA the NUMA
	// node, as the kernel numbers it; devices that share one are closer to each other than
	// to others. Empty = not known.
	Group string `json:"group,omitempty"`
	NUMA  string `json:"numa,omitempty"`
}

// Node is what allocation decisions may know of a machine.
type Node struct {
	ID      NodeID   `json:"id"`
	Devices []Device `json:"devices"`
	// Cordoned nodes keep what they run and get no new work.
	Cordoned bool `json:"cordoned,omitempty"`
	// Location is the network's domains that the node is in, from the outermost in:
	// "block1/rack7". Empty = not known.
	Location string `json:"location,omitempty"`
	// PricePerHour is what the node costs while it runs something, in any currency, at most
	// MaxPricePerHour; 0 = it costs nothing more.
	PricePerHour float64 `json:"price_per_hour,omitempty"`
}

// Usable returns the identifiers of the devices that may be given to new work, in the node's own order.
func (n Node) Usable() []DeviceID {
	if n.Cordoned {
		return nil
	}
	ids := make([]DeviceID, 0, len(n.Devices))
	for _, d := range n.Devices {
		if d.Health == Healthy {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// ModelName is the model without blanks around it, by which devices are told apart; empty = unknown.
func (d Device) ModelName() string { return strings.TrimSpace(d.Model) }

// Models lists the models of the nodes' healthy devices, sorted.
func Models(nodes []Node) []string {
	var out []string
	for _, n := range nodes {
		for _, d := range n.Devices {
			if d.Health != Healthy {
				continue
			}
			name := d.ModelName()
			if i, found := slices.BinarySearch(out, name); !found {
				out = slices.Insert(out, i, name)
			}
		}
	}
	return out
}

// OfModel returns the nodes that have devices of a model, with these alone. Unhealthy
// devices stay, so that what must keep them finds them.
func OfModel(nodes []Node, model string) []Node {
	var out []Node
	for _, n := range nodes {
		of := func(d Device) bool { return d.ModelName() == model }
		if !slices.ContainsFunc(n.Devices, of) {
			continue
		}
		other := func(d Device) bool { return d.Health == Healthy && !of(d) }
		if slices.ContainsFunc(n.Devices, other) {
			n.Devices = slices.DeleteFunc(slices.Clone(n.Devices), other)
		}
		out = append(out, n)
	}
	return out
}
