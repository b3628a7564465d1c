package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A server is gone for good: it is removed once its job goes on without it, and
// the node that is left is alone, so that an outage of etcd costs it nothing. An
// agent of that name with its old data joins as a new node.
func TestRemoveNode(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{nodes: 2, devices: 1, policy: "share"})
	id := f.submit(f.sdkJob("a", 1, 2, 1<<30, 0.1, "--save-every", "10"))
	g := f.awaitRunning(id, 2, 0)
	f.awaitStep("a", 10, 2)

	s := f.as(ordinary, "nodes", "remove", "n2")
	if s.wait() != 1 || !strings.Contains(s.said(), "you are "+ordinaryName) {
		t.Errorf("by the ordinary user: %s", s.said())
	}
	f.says(1, []string{`there is no node "n9": `}, "nodes", "remove", "n9")
	f.says(2, []string{"node n2 is alive", "drain it, and stop its agent"}, "nodes", "remove", "n2")

	shims := f.freezeNode("n2", id)
	f.await("n2 to be lost", func(m *record.Mirror) bool { return !m.Node("n2").Alive.Exists() })
	f.says(2, []string{"of job " + string(id) + " is not over on node n2", "bellows drain n2 --down"}, "nodes", "remove", "n2")
	g = f.awaitRunning(id, 1, g)
	f.awaitNode("n2", "lost", func(n api.NodeStatus) bool { return !n.Alive })

	f.says(0, []string{"n2: removed"}, "nodes", "remove", "n2")
	f.says(1, []string{`there is no node "n2": `}, "nodes", "remove", "n2")
	f.says(0, []string{"node-removed", "n2", "root"}, "events")
	f.nodesAre("n1")
	f.await("n1 to take its word back", func(m *record.Mirror) bool {
		return m.Node("n1").Fencing.Exists() && m.Node("n1").Fencing.Value.AliveRev == 0
	})

	workers := f.started(id)
	f.stopEtcd()
	f.awaitStep("a", f.lastStep("a")+150, 1) // at 10 steps a second: longer than D
	f.startEtcd()
	f.await("a leader and the node", func(m *record.Mirror) bool { return len(m.Leaders) > 0 && m.Node("n1").Alive.Exists() })
	f.awaitStep("a", f.lastStep("a")+20, 1)
	if now := f.started(id); len(now) != 1 || now[0] != workers[0] {
		t.Errorf("the workers were %v and are %v", workers, now)
	}

	// What was left there is ended: its shim's deadline has long passed.
	for _, pid := range shims {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	f.startAgent(2)
	f.awaitRunning(id, 2, g)
	m := f.await("both nodes to say that they fence themselves", func(m *record.Mirror) bool {
		n1, n2 := m.Node("n1"), m.Node("n2")
		return n1.Fencing.Value.AliveRev == n1.Alive.Create && n2.Fencing.Value.AliveRev == n2.Alive.Create
	})
	if s := m.Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("it was charged to the job: %+v", s)
	}
	f.mustBellows("stop", "-w", "a")
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	batches(t, f.trace("a")) // no step is missing
}

// freezeNode kills a node's agent and lets everything else there stand still, and returns its shims.
func (f *fleet) freezeNode(n cluster.NodeID, id cluster.JobID) (shims []int) {
	f.t.Helper()
	f.kill("agent-" + string(n))
	workers := f.workers(id)
	for _, pid := range f.mentioning(f.nodeDir(indexOf(n)) + "/") {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			f.t.Fatal(err)
		}
		if !slices.Contains(workers, pid) {
			shims = append(shims, pid)
		}
	}
	if len(shims) == 0 {
		f.t.Fatalf("no shim runs on %s", n)
	}
	return shims
}
