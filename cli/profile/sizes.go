package profile

import (
	"slices"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
)

// MaxSizes bounds the sizes that one profile measures.
const MaxSizes = 32

// Sizes are the numbers of workers to measure, ascending: those that were asked for, else
// all that the job may have, as far as so many devices are idle.
func Sizes(spec cluster.Spec, asked []int, idle int) ([]int, error) {
	if len(asked) == 0 {
		all := slices.DeleteFunc(spec.WorldSizes(), func(k int) bool { return k > idle })
		if len(all) == 0 {
			return nil, fault.WithRemedy(fault.Usage("%d devices are idle, and the job needs %d", idle, spec.MinWorkers),
				"too few devices are idle for the smallest size of the job: wait for some, or free them ('bellows ps')")
		}
		return all[:min(len(all), MaxSizes)], nil
	}
	asked = slices.Compact(slices.Sorted(slices.Values(asked)))
	if len(asked) > MaxSizes {
		return nil, fault.Usage("--sizes: %d are listed, at most %d", len(asked), MaxSizes)
	}
	wide := spec
	wide.MinWorkers, wide.MaxWorkers = 1, asked[len(asked)-1]
	possible := wide.WorldSizes()
	for _, k := range asked {
		switch {
		case !slices.Contains(possible, k):
			return nil, fault.Usage("--sizes %d: the job can have %s workers (--batch-size, --world-sizes)", k, units.List(possible))
		case k > idle:
			return nil, fault.Usage("--sizes %d: %d devices are idle: leave it out, or wait for more ('bellows nodes')", k, idle)
		}
	}
	return asked, nil
}

// Idle is how many devices the job could have without taking one from another.
func Idle(nodes []api.NodeStatus, where cluster.Where) (idle int) {
	for _, n := range nodes {
		node := cluster.Node{ID: cluster.NodeID(n.ID)}
		free := 0
		for _, d := range n.Devices {
			node.Devices = append(node.Devices, cluster.Device{ID: cluster.DeviceID(d.ID), Model: d.Model, MemoryBytes: d.MemoryBytes})
			if d.Job == "" && d.Health == string(cluster.Healthy) {
				free++
			}
		}
		if n.Alive && n.Cordon == "" && !n.Drain && where.Refuses(node) == "" {
			idle += free
		}
	}
	return idle
}
