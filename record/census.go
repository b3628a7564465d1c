package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Census counts what the records tell, for those who watch a cluster's health.
type Census struct {
	Jobs    map[cluster.Phase]int // all phases, also those that no job is in
	Nodes   map[NodeState]int     // all states
	Devices map[DeviceState]int   // all states
	// Scattered are the free devices of nodes of which others are in use: no job of a whole node can have them.
	Scattered int
	Active    []JobCensus // jobs with a generation that may have processes, by identifier
}

// Fragmentation is the share of the free devices that are scattered; false if none is free.
func (c Census) Fragmentation() (share float64, ok bool) {
	free := c.Devices[DeviceFree]
	if free == 0 {
		return 0, false
	}
	return float64(c.Scattered) / float64(free), true
}

// NodeState is what a node is to those who want to run something.
type NodeState string

// The states of nodes.
const (
	NodeInService NodeState = "alive"
	NodeCordoned  NodeState = "cordoned" // alive, and gets no new work
	NodeGone      NodeState = "gone"     // known, and not in the cluster now
)

// DeviceState is what a device is to those who want to run something.
type DeviceState string

// The states of devices.
const (
	DeviceFree  DeviceState = "free"
	DeviceInUse DeviceState = "used"  // granted to a job
	DeviceUnfit DeviceState = "unfit" // not granted, and unhealthy or on a cordoned node
	DeviceGone  DeviceState = "gone"  // of a node that is not in the cluster now
)

// JobCensus is one job that has workers, or is about to.
type JobCensus struct {
	ID      cluster.JobID
	Workers int
	// Steps are the optimiser steps that count: what a world that was lost had done
	// beyond its last checkpoint is not among them.
	Steps          int64
	StepsPerSecond float64 // as its ranks report it for the present generation; 0 = unknown
	// Trained is how long it has had workers, from plan to end, over all generations:
	// starting, loading and saving count, waiting does not.
	Trained  time.Duration
	Restarts int
	// GainPredicted is by which factor its last change of size was predicted to change its
	// speed, and GainMeasured by which it did; 0 = unknown.
	GainPredicted, GainMeasured float64
}

// Census counts the mirror's records as of now.
func (m *Mirror) Census(now time.Time) Census {
	c := Census{
		Jobs: map[cluster.Phase]int{}, Nodes: map[NodeState]int{NodeInService: 0, NodeCordoned: 0, NodeGone: 0},
		Devices: map[DeviceState]int{DeviceFree: 0, DeviceInUse: 0, DeviceUnfit: 0, DeviceGone: 0},
	}
	for _, p := range cluster.Phases() {
		c.Jobs[p] = 0
	}
	for _, id := range m.JobIDs() {
		v := m.Jobs[id]
		if !v.Spec.Exists() || !v.State.Exists() {
			continue
		}
		c.Jobs[v.State.Value.Phase]++
		if v.State.Value.Phase.Active() {
			c.Active = append(c.Active, m.jobCensus(v, now))
		}
	}
	for _, id := range m.NodeIDs() {
		m.Nodes[id].count(&c)
	}
	return c
}

func (m *Mirror) jobCensus(v *JobView, now time.Time) JobCensus {
	s := v.State.Value
	plan := v.Generation(s.Generation).Plan.Value
	j := JobCensus{
		ID: v.ID, Workers: plan.World.Size(), Steps: v.Committed.Value.Step, Trained: time.Duration(s.Trained), Restarts: s.Restarts,
	}
	if r, ok := v.LastResize(); ok {
		j.GainPredicted, j.GainMeasured = r.Predicted, v.Speed.Value.MeasuredGain(r)
	}
	if !plan.At.IsZero() {
		j.Trained += max(0, now.Sub(plan.At))
	}
	for _, member := range plan.World.Members {
		p, ok := m.Node(member.Node).Progress.Value.Jobs[v.ID]
		if ok && p.Generation == s.Generation && p.Nonce == plan.World.Nonce {
			j.Steps, j.StepsPerSecond = max(j.Steps, p.Step), max(j.StepsPerSecond, p.StepsPerSecond)
		}
	}
	return j
}

func (v *NodeView) count(c *Census) {
	state := NodeInService
	switch {
	case !v.Alive.Exists() && !v.Inventory.Exists():
		return // nothing but what it once acknowledged
	case !v.Alive.Exists():
		state = NodeGone
	case v.Cordon.Exists():
		state = NodeCordoned
	}
	c.Nodes[state]++
	used := map[cluster.DeviceID]bool{}
	for _, g := range v.Grants {
		for _, d := range g.Value.Devices {
			used[d] = true
		}
	}
	free, inUse := 0, 0
	for _, d := range v.Inventory.Value.Devices {
		switch {
		case state == NodeGone:
			c.Devices[DeviceGone]++
		case used[d.ID]:
			inUse++
		case state == NodeCordoned || d.Health != cluster.Healthy:
			c.Devices[DeviceUnfit]++
		default:
			free++
		}
	}
	c.Devices[DeviceInUse] += inUse
	c.Devices[DeviceFree] += free
	if inUse > 0 {
		c.Scattered += free
	}
}
