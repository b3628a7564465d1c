package nvml

import (
	"context"
	"fmt"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// SimulatedModel is what a simulated device calls itself where nothing else is asked for.
const SimulatedModel = "simulated"

// simulated is a Source of devices that exist in name only.
type simulated []Reading

// Simulated makes a source of count healthy devices "SIM-<node>-0", "SIM-<node>-1", …
func Simulated(node cluster.NodeID, count int, model string, memoryBytes uint64) Source {
	readings := make(simulated, count)
	for i := range readings {
		readings[i] = Reading{
			Device: cluster.Device{
				ID:          cluster.DeviceID(fmt.Sprintf("SIM-%s-%d", node, i)),
				Model:       model,
				MemoryBytes: memoryBytes,
				Health:      cluster.Healthy,
			},
			Index: i, NUMA: -1,
		}
	}
	return readings
}

func (s simulated) Survey(context.Context) (Survey, error) {
	return Survey{Devices: slices.Clone(s), Simulated: true}, nil
}

func (s simulated) Close() error { return nil }
