package e2e

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// I11: an agent that is killed and is back within its lease restarts no worker.
func TestKilledAgentAdoptsItsWorkers(t *testing.T) {
	t.Parallel()
	const times = 8
	f := newFleet(t, config{nodes: 1, devices: 2})
	id := f.submit(f.sdkJob("steady", 2, 2, 100000, 0.1))
	f.awaitStep("steady", 3, 2)
	before := f.started(id)
	for i := range times {
		f.kill("agent-n1")
		f.startAgent(1)
		f.awaitReady(1)
		time.Sleep(time.Second) // the fault's own clock: a second after each ready
		if got := f.started(id); !slices.Equal(got, before) {
			t.Fatalf("after kill %d the workers are %v, were %v", i+1, got, before)
		}
	}
	if s := f.mirror().Job(id).State.Value; s.Generation != 1 || s.Restarts != 0 || s.Phase != cluster.Running {
		t.Errorf("after %d kills: %+v", times, s)
	}
	f.awaitStep("steady", f.lastStep("steady")+20, 2) // it goes on
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped) // and still hears
}

// started returns the workers of the job's generation as recorded, checked to live. A
// step may be seen before that is recorded: what runs is recorded by all of its nodes.
func (r *records) started(id cluster.JobID) []record.Worker {
	r.t.Helper()
	m := r.await(string(id)+" to run", func(m *record.Mirror) bool { return m.Job(id).State.Value.Phase == cluster.Running })
	g := m.Job(id).State.Value.Generation
	nonce := m.Job(id).Generation(g).Plan.Value.World.Nonce
	var all []record.Worker
	for _, n := range m.NodeIDs() {
		all = append(all, m.Node(n).Ack(id, g, nonce).Started.Value.Workers...)
	}
	for _, w := range all {
		if err := syscall.Kill(w.PID, 0); err != nil {
			r.t.Errorf("worker of rank %d, pid %d: %v", w.Rank, w.PID, err)
		}
	}
	return all
}

// awaitReady waits until the agent of node i answers.
func (u *people) awaitReady(i int) {
	u.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := u.client(i).Nodes(u.t.Context()); err == nil {
			return
		} else if time.Now().After(deadline) {
			u.t.Fatalf("agent of %s does not answer: %v", node(i), err)
		}
	}
}

func TestKilledCoordinatorLeavesTrainingAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, coordinators: 2, policy: "share"})
	id := f.submit(f.sdkJob("calm", 1, 4, 100000, 0.1))
	f.awaitStep("calm", 3, 4)
	leader := f.leader()
	f.kill("coordinator-" + leader[1:])
	small := f.submit(f.sdkJob("small", 2, 2, 10, 0.05)) // accepted without a leader
	f.awaitPhase(small, cluster.Succeeded)               // the other one takes over and makes room
	if s := f.mirror().Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("the takeover cost restarts: %+v", s)
	}
	for step, n := range takes(f.trace("calm")) {
		if n != 1 {
			t.Errorf("step %d was taken %d times", step, n)
		}
	}
}

// leader returns the name of the coordinator that leads: the oldest candidate.
func (r *records) leader() string {
	r.t.Helper()
	m := r.mirror()
	name, oldest := "", int64(1<<62)
	for _, l := range m.Leaders {
		if l.Create < oldest {
			name, oldest = l.Value.Node, l.Create
		}
	}
	return name
}

func TestLostNodeIsFencedAndTheJobGoesOn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 3, devices: 2, policy: "share"})
	id := f.submit(f.sdkJob("survivor", 1, 4, 100000, 0.2, "--save-every", "10"))
	f.awaitStep("survivor", 25, 4)
	f.await("step 20 to be committed", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step >= 20 })
	w := f.mirror().Job(id).Generation(1).Plan.Value.World
	if len(w.Members) < 2 {
		t.Fatalf("a world of 4 on nodes of 2 has the members %+v", w.Members)
	}
	lost := w.Members[1].Node
	start := time.Now()
	f.killNode(lost)
	f.await("a new generation without "+string(lost), func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		_, _, there := m.Job(id).Generation(s.Generation).Plan.Value.World.Member(lost)
		return s.Generation > 1 && s.Phase == cluster.Running && !there
	})
	took := time.Since(start)
	t.Logf("running again %.1f s after the node's death", took.Seconds())
	m := f.mirror()
	plan := m.Job(id).Generation(m.Job(id).State.Value.Generation).Plan.Value
	if plan.Resume == nil || plan.Resume.Step < 20 {
		t.Errorf("resumes from %+v, want the last committed checkpoint, step 20 or later", plan.Resume)
	}
	if s := m.Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("a lost node was charged to the job: %d restarts", s.Restarts)
	}
}

// killNode kills everything of a node at once, as a power cut does.
func (f *fleet) killNode(n cluster.NodeID) {
	f.t.Helper()
	agent := f.procs["agent-"+string(n)]
	_ = agent.cmd.Process.Kill()
	for _, pid := range f.mentioning(f.nodeDir(indexOf(n)) + "/") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-agent.done
}
