package host

import (
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/host/watchdog"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// tickEvery is how often the node looks at what nothing tells it: plain scripts'
// directories, waits that are over.
const tickEvery = time.Second

// loop takes events in and acts on what has changed, until the context ends.
func (n *node) loop() {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.Context().Done():
			return
		case event := <-n.Events():
			event()
			n.Drain()
		case <-tick.C:
			n.tick()
		}
		n.step()
	}
}

// step brings everything in line with what is known now. Each line begins what is
// due and returns at once.
func (n *node) step() {
	n.session.checkAliveKey()
	n.adoption.noteBegin()
	n.adoption.sweepUnadopted()
	n.fencing.update()
	n.goals.follow()
	n.shims.forgetAbsent()
	n.checkpoints.look()
	n.probes.next()
	for _, a := range agent.Plan(n.goals.desired(), n.goals.observed()) {
		n.act(a)
	}
	n.guard()
	n.inventory.write()
	n.report.write()
	n.upkeep.announce()
}

// tick looks at what changes without an event.
func (n *node) tick() {
	n.adoption.scanAgain()
	if n.runs.stopped { // what they may have left
		n.runs.stopped = false
		n.devices.Soon()
	}
	n.devices.Look()
	n.goals.checkCollected()
	n.upkeep.deleteLogs()
	n.gossip.tell(n.session.reachesEtcd())
	n.reportVitals()
	n.upkeep.notifySystemd()
}

// guard tells the watchdog which runs have a deadline that binds them.
func (n *node) guard() {
	runs := map[record.JobGen]watchdog.Guarded{}
	for _, o := range n.goals.observed().Runs {
		jg := generationOf(o.Job, o.Generation)
		if r := n.runs.all[jg]; r.wish.deadline != 0 && r.wish.deadline != fence.Never {
			runs[jg] = watchdog.Guarded{Run: o, Deadline: r.wish.deadline, Dir: r.dir}
		}
	}
	n.watchdog.Watch(runs)
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
