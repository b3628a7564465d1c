package machine_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// bench is a few machines on a network, on which a test writes what the leader would.
type bench struct {
	t        *testing.T
	net      *machine.Network
	machines []*machine.Machine
	shims    map[cluster.NodeID]*machine.Shim // with workers
}

const train cluster.JobID = "train-aaaaaa"

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newBench(t *testing.T, nodes ...cluster.NodeID) *bench {
	b := &bench{t: t, net: machine.NewNetwork(), shims: map[cluster.NodeID]*machine.Shim{}}
	for _, id := range nodes {
		m := machine.New(machine.Config{
			Node: id, Dawn: dawn, Leases: b.net.Memory, Crowd: func() int { return len(nodes) }, Script: b, Outside: b.net,
		})
		m.Devices = []cluster.Device{{ID: cluster.DeviceID(id + "-0"), Health: cluster.Healthy}}
		b.machines = append(b.machines, m)
		b.net.Connect(m)
	}
	b.net.Pass(time.Second)
	return b
}

func (b *bench) write(ops ...record.Op) {
	b.t.Helper()
	if out := b.net.Commit(record.Txn{ID: "leader", Then: ops}); out.Result != record.Applied {
		b.t.Fatalf("%v: %v", ops, out.Err)
	}
}

// start plans a generation over all machines, and lets them execute their workers.
func (b *bench) start(g cluster.Generation) {
	b.t.Helper()
	world := cluster.World{Job: train, Generation: g, BatchSize: 8}
	ops := []record.Op{record.Put(record.PermitKey(train, g), record.Permit{})}
	for i, m := range b.machines {
		d := m.Devices[0].ID
		world.Members = append(world.Members, cluster.Member{Node: m.Node, AliveRev: m.Life(), Devices: []cluster.DeviceID{d}, FirstRank: i})
		ops = append(ops, record.Put(record.GrantKey(m.Node, train), record.Grant{Generation: g, Devices: []cluster.DeviceID{d}}))
	}
	b.write(append(ops, record.Put(record.SpecKey(train), record.Submitted{ID: train}), record.Put(record.PlanKey(train, g), record.Plan{World: world}))...)
	b.net.Pass(time.Second)
	for _, m := range b.machines {
		if !b.acks(m.Node, g).Started.Exists() {
			b.t.Fatalf("%s has not started", m.Node)
		}
	}
}

func (b *bench) acks(n cluster.NodeID, g cluster.Generation) record.Acks {
	return b.net.Records().Node(n).Ack(train, g, "")
}

// Run, Hold, Stop and Terminate implement machine.Script: the workers save when they
// are told to stop, and have always begun step 80.
func (b *bench) Run(s *machine.Shim) {
	b.shims[s.Member.Node] = s
	s.Connect()
}

func (b *bench) Hold(s *machine.Shim) { s.Holds(80) }

func (b *bench) Stop(s *machine.Shim, after int64) {
	b.net.At(time.Second, func() {
		s.Saved(after, -1)
		s.Exit(0)
	})
}

func (b *bench) Terminate(s *machine.Shim) { s.Exit(143) }

// The ranks of rank 0's node have all exited, those of the other have steps to go
// when a halt comes. It ends with the checkpoint that both come to, long before its time is over.
func TestAHaltAfterOneNodesRanksHaveEnded(t *testing.T) {
	b := newBench(t, "n1", "n2")
	b.start(1)
	b.shims["n1"].Saved(90, -1)
	b.shims["n1"].Exit(0)
	b.net.Pass(2 * time.Second)
	if b.acks("n1", 1).Stopped.Exists() {
		t.Fatal("rank 0's node has stopped without the other's part of its last save")
	}
	at := dawn.Add(b.net.Now())
	halt := record.Halt{Why: reason.Said("test"), Save: true, At: at, Deadline: at.Add(time.Minute)}
	b.write(record.Put(record.HaltKey(train, 1), halt))
	b.net.Pass(2 * time.Second)
	first, second := b.acks("n1", 1).Held, b.acks("n2", 1).Held
	if !first.Exists() || !second.Exists() || first.Value.Begun != 90 || second.Value.Begun != 80 {
		t.Fatalf("held %+v and %+v", first, second)
	}
	last := max(first.Value.Begun, second.Value.Begun)
	halt.StopAfter = &last
	b.write(record.Put(record.HaltKey(train, 1), halt))
	b.net.Pass(5 * time.Second)
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		if !b.acks(n, 1).Stopped.Exists() {
			t.Errorf("%s has not stopped", n)
		}
	}
	if offers := b.net.Records().Node("n1").Offers[record.JobGen{Job: train, Generation: 1}]; !offers[90].Exists() {
		t.Errorf("offers %+v", offers)
	}
}
