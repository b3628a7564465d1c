package host

import (
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// Vitals is how a node does, for those who watch it.
type Vitals struct {
	InCluster bool
	// Renewed is when the node's lease was renewed last; zero = not in this life.
	Renewed time.Time
	Workers int // processes that were started here and are not known to be gone
	Devices map[record.DeviceState]int
	// Gossip counts the nodes that gossip says are alive, dead or left; GossipScore
	// is 0 while it keeps up.
	Gossip      map[string]int
	GossipScore int
	Readings    []api.DeviceReading
}

// reportVitals hands out how the node does, as of now.
func (n *node) reportVitals() {
	if n.cfg.Vitals == nil {
		return
	}
	v := Vitals{
		InCluster: n.session.presence.aliveRev != 0, Devices: n.records.mirror.Census(time.Now()).Devices,
		Gossip: map[string]int{}, GossipScore: n.gossip.Health(), Readings: n.devices.Shown().Devices,
	}
	if v.InCluster {
		v.Renewed = time.Now().Add(n.session.presence.renewed - store.Boottime())
	}
	for _, state := range n.gossip.states() {
		v.Gossip[state]++
	}
	for _, r := range n.runs.all {
		if r.report != nil && r.report.Stopped == nil {
			v.Workers += len(r.report.Workers)
		}
	}
	n.cfg.Vitals(v)
}
