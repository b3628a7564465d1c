package host

import (
	"time"

	"github.com/bellows-ml/bellows/store"
)

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
