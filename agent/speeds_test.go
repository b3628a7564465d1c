package agent_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// pace is a job that saves every second, on nodes of which each takes its own time for a digest.
type pace struct {
	net      *machine.Network
	shims    []*machine.Shim
	recorded map[int64]int // by how many nodes each step was recorded
}

// Run, Hold, Stop and Terminate implement machine.Script; the job is never halted.
func (p *pace) Run(s *machine.Shim)     { p.shims = append(p.shims, s) }
func (*pace) Hold(*machine.Shim)        {}
func (*pace) Stop(*machine.Shim, int64) {}
func (*pace) Terminate(*machine.Shim)   {}
func (p *pace) begins(a agent.Action) {
	if saved, ok := a.(agent.WriteSaved); ok {
		p.recorded[saved.Step]++
	}
}

// paced returns the steps that all nodes have recorded, where a node takes so many
// hundredths of a second for a digest.
func paced(t *testing.T, nodes []int, first, every int64, saves int) []int64 {
	t.Helper()
	const job = "j"
	p := &pace{net: machine.NewNetwork(), recorded: map[int64]int{}}
	world := cluster.World{Job: job, Generation: 1}
	ops := []record.Op{record.Put(record.SpecKey(job), record.Submitted{ID: job}), record.Put(record.PermitKey(job, 1), record.Permit{})}
	for i, hundredths := range nodes {
		id := cluster.NodeID(fmt.Sprintf("n%d", i))
		device := cluster.DeviceID(id)
		m := machine.New(machine.Config{
			Node: id, Dawn: dawn, Leases: p.net.Memory, Crowd: func() int { return len(nodes) }, Script: p, Outside: p.net,
			Faults: machine.Faults{Begun: p.begins, Takes: func(a agent.Action) time.Duration {
				if _, ok := a.(agent.Digest); ok {
					return time.Duration(hundredths) * time.Second / 100
				}
				return 0
			}},
		})
		m.Devices = []cluster.Device{{ID: device, Health: cluster.Healthy}}
		p.net.Connect(m)
		p.net.Tick()
		world.Members = append(world.Members, cluster.Member{Node: id, AliveRev: m.Life(), FirstRank: i, Devices: []cluster.DeviceID{device}})
		ops = append(ops, record.Put(record.GrantKey(id, job), record.Grant{Generation: 1, Devices: []cluster.DeviceID{device}}))
	}
	p.net.Commit(record.Txn{ID: "leader", Then: append(ops, record.Put(record.PlanKey(job, 1), record.Plan{World: world}))})
	p.net.Tick()
	if len(p.shims) != len(nodes) {
		t.Fatalf("%d of %d nodes have started", len(p.shims), len(nodes))
	}
	for i := range saves {
		for _, s := range p.shims {
			s.Saved(first+int64(i)*every, -1)
		}
		p.net.Pass(time.Second)
	}
	maps.DeleteFunc(p.recorded, func(_ int64, n int) bool { return n < len(nodes) })
	return slices.Sorted(maps.Keys(p.recorded))
}

// A job that saves faster than its nodes digest commits all the same, again and
// again, whatever their speeds and whichever steps it saves.
func TestNodesOfDifferentSpeedsShareSteps(t *testing.T) {
	const saves = 200
	for _, nodes := range [][]int{{30}, {150}, {370}, {30, 150}, {150, 250}, {230, 370}, {330, 333}, {210, 570, 1130}, {990, 1010}, {310, 320, 330, 340, 350, 360, 370, 380}} {
		for _, steps := range []struct{ first, every int64 }{{1, 1}, {7, 50}} {
			shared := paced(t, nodes, steps.first, steps.every, saves)
			slowest := slices.Max(nodes)
			gap, last := int64(0), steps.first
			for _, s := range shared {
				gap, last = max(gap, (s-last)/steps.every), s
			}
			gap = max(gap, int64(saves)-(last-steps.first)/steps.every)
			if least := 100 * saves / slowest / 6; len(shared) < min(least, saves/3) {
				t.Errorf("digests of %v hundredths, steps %+v: %d shared, want %d", nodes, steps, len(shared), least)
			}
			if most := int64(20*slowest/100 + 5); gap > most {
				t.Errorf("digests of %v hundredths, steps %+v: no step shared for %d saves, at most %d is fine", nodes, steps, gap, most)
			}
			t.Logf("%v %+v: %d shared, longest gap %d saves", nodes, steps, len(shared), gap)
		}
	}
}
