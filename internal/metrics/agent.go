package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Node is what an agent knows of its own node.
type Node struct {
	InCluster   bool
	Renewed     time.Time // when its lease was renewed last; zero = not in this life
	Workers     int
	Devices     map[record.DeviceState]int
	Gossip      map[string]int // how many nodes are alive, dead, left, as far as is heard
	GossipScore int
	Readings    []Reading
}

// Reading is what one device is doing; nil = unknown.
type Reading struct {
	Device          cluster.DeviceID
	Busy            *float64 // 0 to 1
	MemoryUsedBytes *uint64
	TemperatureC    *int
}

// Agent is the metrics of an agent.
type Agent struct {
	*Set
	node  atomic.Pointer[Node] // as told last
	descs map[string]*prometheus.Desc
}

// NewAgent makes the metrics of an agent.
func NewAgent(version string) *Agent {
	a := &Agent{Set: newSet(AgentRole, version), descs: descsOf(nodeFamilies())}
	a.registry.MustRegister(a)
	return a
}

// Tell replaces what is known of the node; n must not be changed afterwards.
func (a *Agent) Tell(n Node) { a.node.Store(&n) }

// Describe implements prometheus.Collector.
func (a *Agent) Describe(to chan<- *prometheus.Desc) { describe(a.descs, to) }

// Collect implements prometheus.Collector.
func (a *Agent) Collect(to chan<- prometheus.Metric) {
	n := a.node.Load()
	if n == nil {
		n = &Node{}
	}
	e := emitter{a.descs, to}
	in := 0.0
	if n.InCluster {
		in = 1
	}
	e.gauge("bellows_node_in_cluster", in)
	if !n.Renewed.IsZero() {
		e.gauge("bellows_node_lease_age_seconds", time.Since(n.Renewed).Seconds())
	}
	e.gauge("bellows_node_workers", float64(n.Workers))
	for _, state := range []record.DeviceState{record.DeviceFree, record.DeviceInUse, record.DeviceUnfit} {
		e.gauge("bellows_node_devices", float64(n.Devices[state]), string(state))
	}
	for _, state := range []string{"alive", "dead", "left"} {
		e.gauge("bellows_gossip_members", float64(n.Gossip[state]), state)
	}
	e.gauge("bellows_gossip_health_score", float64(n.GossipScore))
	for _, r := range n.Readings {
		if r.Busy != nil {
			e.gauge("bellows_device_busy_ratio", *r.Busy, string(r.Device))
		}
		if r.MemoryUsedBytes != nil {
			e.gauge("bellows_device_memory_used_bytes", float64(*r.MemoryUsedBytes), string(r.Device))
		}
		if r.TemperatureC != nil {
			e.gauge("bellows_device_temperature_celsius", float64(*r.TemperatureC), string(r.Device))
		}
	}
}
