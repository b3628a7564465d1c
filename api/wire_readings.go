package api

import "time"

// NodeReadings is what a node's devices were doing when its agent last looked. It is
// read when a request asks for it, and recorded nowhere.
type NodeReadings struct {
	// AgeS is how many seconds ago that was. Not a time: clocks of nodes differ.
	AgeS    float64         `json:"age_s"`
	Driver  string          `json:"driver,omitempty"` // version
	Devices []DeviceReading `json:"devices"`
	// Places says where each device is, also one that says nothing any more; Links
	// how those that answer reach each other, each pair once.
	Places []DevicePlace `json:"places,omitempty"`
	Links  []DeviceLink  `json:"links,omitempty"`
	// Now is what the answering agent's clock says.
	Now time.Time `json:"now,omitzero"`
	// Missing says why there is nothing to read, in a few words.
	Missing   string `json:"missing,omitempty"`
	Simulated bool   `json:"simulated,omitempty"` // the devices exist in name only
}

// DeviceReading is one device's; what is unknown is left out.
type DeviceReading struct {
	ID              string   `json:"id"`
	BusyPercent     *int     `json:"busy_percent,omitempty"` // of the last sample period, in which a kernel ran
	MemoryUsedBytes uint64   `json:"memory_used_bytes"`
	TemperatureC    *int     `json:"temperature_c,omitempty"`
	Slowed          string   `json:"slowed,omitempty"`          // what makes the hardware slower than its clocks
	UncorrectedECC  *uint64  `json:"uncorrected_ecc,omitempty"` // memory errors since the driver was loaded
	Warning         string   `json:"warning,omitempty"`         // what the driver advises that can wait
	LastXid         *LastXid `json:"last_xid,omitempty"`
	// Processes are those that the driver lists on it.
	Processes []DeviceProcess `json:"processes,omitempty"`
}

// DevicePlace is where a device is, for an operator who has to reset or replace it.
type DevicePlace struct {
	ID    string `json:"id"`
	Index int    `json:"index"`               // as nvidia-smi counts; moves with the next boot
	PCI   string `json:"pci,omitempty"`       // domain:bus:device.function
	NUMA  *int   `json:"numa_node,omitempty"` // nil = unknown, or none
}

// DeviceLink is how two devices reach each other.
type DeviceLink struct {
	A       string `json:"a"`
	B       string `json:"b"`
	NVLinks int    `json:"nvlinks,omitempty"` // links, directly or through a switch
	// Path is the way over PCIe, in nvidia-smi's words: PIX, PXB, PHB, NODE or SYS; empty = unknown.
	Path string `json:"path,omitempty"`
}

// LastXid is the driver's last critical error on a device, by NVIDIA's numbers.
type LastXid struct {
	Code uint64  `json:"code"`
	AgeS float64 `json:"age_s"` // seconds since it was noticed
}

// DeviceProcess is a process on a device.
type DeviceProcess struct {
	PID         int    `json:"pid"`
	Command     string `json:"command,omitempty"` // the program's name; empty where the system shows no such process
	User        string `json:"user,omitempty"`
	Job         string `json:"job,omitempty"`          // whose it is; empty = a stranger, or not known
	MemoryBytes uint64 `json:"memory_bytes,omitempty"` // 0 = unknown
	Graphics    bool   `json:"graphics,omitempty"`     // it only draws
}

// Place returns where a device is, nil if that is not told.
func (r NodeReadings) Place(device string) *DevicePlace {
	for i := range r.Places {
		if r.Places[i].ID == device {
			return &r.Places[i]
		}
	}
	return nil
}

// Of returns what a device says, nil if it says nothing.
func (r NodeReadings) Of(device string) *DeviceReading {
	for i := range r.Devices {
		if r.Devices[i].ID == device {
			return &r.Devices[i]
		}
	}
	return nil
}
