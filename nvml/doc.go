// Package nvml says which devices a node has, what they are doing, and who is
// on them. A Source stands for wherever that is known from: the driver's
// library, asked by a child process (Probe), or Simulated devices that need no
// hardware, so that a whole cluster fits on one machine.
//
// It promises that
//   - devices are named by what does not move (a UUID, never an index);
//   - asking again is always allowed, and one device that errs, hangs up or is
//     cut into MIG slices never hides the others: it is listed with its problem;
//   - the agent survives whatever the library does. A call into it may hang for
//     ever, end the process (a symbol that an old library lacks) or corrupt it;
//     all of that happens to a child, which has a deadline and is replaced.
//     A child that cannot even be killed is said so and not joined by a second.
//
// Nothing here is on the way of a lease, a fence or a halt.
package nvml

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Source is where devices are known from. It is safe for concurrent use.
type Source interface {
	// Survey looks at the node's devices now, in the order in which people count
	// them. An error means that nothing is known; a Problem in the survey, that
	// something is missing from it and why.
	Survey(ctx context.Context) (Survey, error)
	// Close lets go of the driver. The source is not used afterwards.
	Close() error
}

// Survey is what one look at a node's devices has found.
type Survey struct {
	Driver  string    `json:"driver,omitempty"` // version
	Devices []Reading `json:"devices"`
	Links   []Link    `json:"links,omitempty"` // between devices, each pair once
	// Simulated devices exist in name only.
	Simulated bool `json:"simulated,omitempty"`
	// Problem says why devices are missing ("no NVIDIA driver …"); empty if nothing is wrong.
	Problem string `json:"problem,omitempty"`
	// Refused: the library cannot be used as a whole, so that the survey says nothing
	// of any device; Problem says why.
	Refused bool `json:"refused,omitempty"`
}

// Reading is one device and what it is doing.
type Reading struct {
	cluster.Device

	Index int    `json:"index"`         // as nvidia-smi counts; moves with the next boot
	PCI   string `json:"pci,omitempty"` // domain:bus:device.function
	NUMA  int    `json:"numa_node"`     // −1 = unknown or none
	// Minor is the number of its file, /dev/nvidia<Minor>; nil = unknown or none.
	Minor *uint32 `json:"minor,omitempty"`

	// What follows only informs: nil, zero or empty = unknown.

	// Busy is the share of the last sample period in which a kernel ran, in percent.
	Busy            *int   `json:"busy_percent,omitempty"`
	MemoryUsedBytes uint64 `json:"memory_used_bytes"`
	TemperatureC    *int   `json:"temperature_c,omitempty"`
	// Slowed says what makes the hardware run slower than its clocks: "heat", "power brake", "hardware".
	Slowed string `json:"slowed,omitempty"`
	// UncorrectedECC counts memory errors since the driver was loaded that were not corrected.
	UncorrectedECC *uint64 `json:"uncorrected_ecc,omitempty"`
	// Warning is what the driver advises that can wait, such as a reset for rows of memory to be replaced.
	Warning string `json:"warning,omitempty"`
	// LastXid is the driver's last critical error on the device, as seen since the child was started.
	LastXid *Xid `json:"last_xid,omitempty"`

	// Processes compute or draw on it; ascending by pid, at most MaxProcesses of them.
	Processes []Process `json:"processes,omitempty"`
}

// The numbers of the driver's device files (devices.txt of the kernel). Those above
// LastMinor are shared by all devices: /dev/nvidiactl, /dev/nvidia-modeset.
const (
	Major     = 195
	LastMinor = 253
)

// MaxProcesses is how many processes of a device are listed: more than contexts fit into its memory.
const MaxProcesses = 256

// Xid is an error of a device by NVIDIA's numbers (docs.nvidia.com/deploy/xid-errors).
type Xid struct {
	Code uint64    `json:"code"`
	At   time.Time `json:"at"` // when it was noticed
}

// Known reports whether the device has said what it is doing.
func (r Reading) Known() bool {
	return r.Busy != nil || r.MemoryUsedBytes != 0 || r.TemperatureC != nil || len(r.Processes) > 0
}

// Process is one that the driver lists on a device, by its pid in the first pid
// namespace of the machine.
type Process struct {
	PID         int    `json:"pid"`
	MemoryBytes uint64 `json:"memory_bytes"` // 0 = unknown
	// Graphics: it only draws, as a display's server does.
	Graphics bool `json:"graphics,omitempty"`
}

// Link is how two devices reach each other.
type Link struct {
	A       cluster.DeviceID `json:"a"`
	B       cluster.DeviceID `json:"b"`
	NVLinks int              `json:"nvlinks,omitempty"` // links, directly or through a switch
	// Path is the way over PCIe, in nvidia-smi's words: PIX (one switch), PXB
	// (several), PHB (host bridge), NODE (within a NUMA node), SYS (across).
	Path string `json:"path,omitempty"`
}

// Inventory is the part of the survey that decisions are made on.
func (s Survey) Inventory() []cluster.Device {
	var devices []cluster.Device
	for _, r := range s.Devices {
		devices = append(devices, r.Device)
	}
	return devices
}
