package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// BenchmarkNodeLoss measures how long a job is away when everything of one of
// its nodes is killed at once, from the kill to its next generation, which runs
// on the other nodes: until the leader sees the node absent (its lease has
// expired), the wait W, and the start. Rank 0's node and another take turns.
//
//	go test ./e2e -run ^$ -bench NodeLoss -benchtime 20x
func BenchmarkNodeLoss(b *testing.B) {
	f := newFleet(b, config{nodes: 3, devices: 2, policy: "share"})
	id := f.submit(f.sdkJob("survivor", 1, 4, 1<<30, 0.2, "--save-every", "10"))
	var p parts
	turn := 0
	for b.Loop() {
		g := f.settled(id, 4)
		members := f.mirror().Job(id).Generation(g).Plan.Value.World.Members
		lost := members[turn%len(members)].Node
		turn++
		// Losses fall anywhere between two renewals of the lease.
		f.phase(turn, fence.RenewEvery)
		f.killNode(lost)
		killed := time.Now()
		m := f.await("a generation without "+string(lost), func(m *record.Mirror) bool {
			s := m.Job(id).State.Value
			return s.Generation > g && s.Phase == cluster.Running && m.Job(id).Generation(g).Fences[lost].Exists()
		})
		running := m.Job(id).State.Value
		fenced := m.Job(id).Generation(g).Fences[lost].Value
		waited := time.Duration(fenced.WaitedMS) * time.Millisecond
		p.add("detect", fenced.At.Add(-waited).Sub(killed))
		p.add("wait", waited)
		p.add("start", running.Since.Sub(fenced.At))
		p.add("running", running.Since.Sub(killed))
		f.awaitLine("survivor", "a step after the loss", func(l traceLine) bool { return l.Generation == int(running.Generation) })
		p.add("step", time.Since(killed))
		if running.Restarts != 0 {
			b.Errorf("the loss of %s was charged to the job: %+v", lost, running)
		}
		f.startAgent(indexOf(lost))
		f.await(string(lost)+" to be back", func(m *record.Mirror) bool { return m.Node(lost).Alive.Exists() })
	}
	p.report(b)
}

// phase waits a part of a period, another one each time, so that what follows
// falls anywhere between two beats of something that beats once a period.
func (f *fleet) phase(turn int, period time.Duration) {
	time.Sleep(time.Duration(turn) * period * 7 / 20 % period)
}

// settled waits until the job runs with so many workers, all of which have
// taken a step in its generation, and returns that.
func (f *fleet) settled(id cluster.JobID, workers int) cluster.Generation {
	f.t.Helper()
	var g cluster.Generation
	m := f.await(fmt.Sprintf("%d workers", workers), func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		g = s.Generation
		return s.Phase == cluster.Running && m.Job(id).Generation(g).Plan.Value.World.Size() == workers
	})
	name := m.Job(id).Spec.Value.Spec.Name
	for rank := range workers {
		f.awaitLine(name, fmt.Sprintf("a step of rank %d in generation %d", rank, g), func(l traceLine) bool {
			return l.Generation == int(g) && l.Rank == rank
		})
	}
	return g
}

// indexOf is the number in a node's name.
func indexOf(n cluster.NodeID) (i int) {
	if _, err := fmt.Sscanf(string(n), "n%d", &i); err != nil {
		panic(err)
	}
	return i
}

// BenchmarkLeaderLoss measures how long a cluster goes without decisions when
// the coordinator that leads is killed: a job is submitted into the gap, and
// another has to make room for it. Training goes on meanwhile.
//
//	go test ./e2e -run ^$ -bench LeaderLoss -benchtime 20x
func BenchmarkLeaderLoss(b *testing.B) {
	f := newFleet(b, config{nodes: 2, devices: 2, coordinators: 2, policy: "share"})
	id := f.submit(f.sdkJob("calm", 1, 4, 1<<30, 0.1))
	var p parts
	for i := 0; b.Loop(); i++ {
		g := f.settled(id, 4)
		leader := f.leader()
		f.phase(i, store.DefaultLeaderTTL/4)
		before := len(f.trace("calm"))
		f.kill("coordinator-" + leader[1:])
		killed := time.Now()
		other := f.submit(f.sdkJob(fmt.Sprintf("other-%d", i), 2, 2, 1<<30, 0.1))
		f.await("the dead leader's key to go", func(*record.Mirror) bool { return f.leader() != leader })
		p.add("takeover", time.Since(killed))
		if len(f.trace("calm")) == before {
			b.Error("no step was taken without a leader")
		}
		m := f.await("a rescale after the takeover", func(m *record.Mirror) bool { return m.Job(id).Rescales[g+1].Exists() })
		r := m.Job(id).Rescales[g+1].Value
		p.add("rescaled", r.At.Sub(killed))
		if s := m.Job(id).State.Value; s.Restarts != 0 || r.LostSteps != 0 || r.To != 2 {
			b.Errorf("after the takeover: %+v, %+v", s, r)
		}
		f.stop(other)
		f.startCoordinator(indexOf(cluster.NodeID("n" + leader[1:])))
		f.await("two candidates", func(m *record.Mirror) bool { return len(m.Leaders) == 2 })
	}
	p.report(b)
}

// BenchmarkAgentLoss measures how long a node is without its agent when that is
// killed and started again, a second after each time that it was ready, and
// demands that no worker is restarted.
//
//	go test ./e2e -run ^$ -bench AgentLoss -benchtime 20x
func BenchmarkAgentLoss(b *testing.B) {
	f := newFleet(b, config{nodes: 1, devices: 2})
	id := f.submit(f.sdkJob("steady", 2, 2, 1<<30, 0.1))
	f.settled(id, 2)
	before := f.started(id)
	var p parts
	restarts := 0
	for b.Loop() {
		f.kill("agent-n1")
		killed := time.Now()
		f.startAgent(1)
		f.awaitReady(1)
		p.add("ready", time.Since(killed))
		time.Sleep(time.Second) // the fault's own clock
		for i, w := range f.started(id) {
			if w != before[i] {
				restarts++
			}
		}
	}
	if s := f.mirror().Job(id).State.Value; s.Generation != 1 || restarts != 0 {
		b.Errorf("%d workers were restarted: %+v", restarts, s)
	}
	b.ReportMetric(float64(restarts), "restarts")
	p.report(b)
	if !slices.Equal(f.started(id), before) {
		b.Error("the workers are not those that were")
	}
}
