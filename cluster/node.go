package cluster

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
}

// Node is what allocation decisions may know of a machine.
type Node struct {
	ID      NodeID   `json:"id"`
	Devices []Device `json:"devices"`
	// Cordoned nodes keep what they run and get no new work.
	Cordoned bool `json:"cordoned,omitempty"`
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
