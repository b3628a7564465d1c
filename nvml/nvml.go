// Package nvml says which devices a node has. A Source stands for wherever that
// is known from; Simulated ones need no hardware, so that a whole cluster fits
// on one machine.
//
// It promises that devices are named by what does not move (a UUID, never an
// index), and that asking again is always allowed: a device that has fallen off
// is missing from the next answer, or unhealthy in it.
package nvml

import (
	"context"
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
)

// Source is where devices are known from. It is safe for concurrent use.
type Source interface {
	// Devices lists the node's devices in the order in which people count them.
	Devices(ctx context.Context) ([]cluster.Device, error)
	// Close lets go of the driver. The source is not used afterwards.
	Close() error
}

// SimulatedModel is what a simulated device calls itself where nothing else is asked for.
const SimulatedModel = "simulated"

// simulated is a Source of devices that exist in name only.
type simulated []cluster.Device

// Simulated makes a source of count healthy devices "SIM-<node>-0", "SIM-<node>-1", …
func Simulated(node cluster.NodeID, count int, model string, memoryBytes uint64) Source {
	devices := make(simulated, count)
	for i := range devices {
		devices[i] = cluster.Device{
			ID:          cluster.DeviceID(fmt.Sprintf("SIM-%s-%d", node, i)),
			Model:       model,
			MemoryBytes: memoryBytes,
			Health:      cluster.Healthy,
		}
	}
	return devices
}

func (s simulated) Devices(context.Context) ([]cluster.Device, error) {
	return append([]cluster.Device(nil), s...), nil
}

func (s simulated) Close() error { return nil }
