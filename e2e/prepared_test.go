package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A job with warm starts is prepared on the nodes of its world, and on those of the world that
// it is about to have; grown, shrunk and with a killed worker it takes each step once, and at
// its end nothing is left.
func TestPrepared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	j := f.sdkJob("warm", 1, 4, 1<<30, 0.05, "--save-every", "10")
	j["warm-start"] = true
	id := f.submit(j)
	g := f.settled(id, 4)
	f.prepared(id, g+1, 2)

	// A smaller world: another job takes half of the devices.
	other := f.submit(f.sdkJob("other", 2, 2, 1<<30, 0.05))
	g = f.settled(id, 2)
	f.nonceWasPrepared(id, g)
	f.stop(other)
	g = f.settled(id, 4)
	f.nonceWasPrepared(id, g)

	// One that fails in its first second waits before it is started again.
	f.awaitStep("warm", f.lastStep("warm")+100, 4)
	f.prepared(id, g+1, 2)
	worker := f.started(id)[3]
	_ = syscall.Kill(worker.PID, syscall.SIGKILL)
	f.await("the next generation", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation > g && s.Phase == cluster.Running
	})
	f.nonceWasPrepared(id, g+1)

	// The agent of a node is restarted while something waits there.
	g = f.settled(id, 4)
	f.prepared(id, g+1, 2)
	f.kill("agent-n2")
	f.startAgent(2)
	f.awaitMembers()
	f.awaitStep("warm", f.lastStep("warm")+100, 4)
	f.prepared(id, g+1, 2)
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	f.await("the generation after", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation > g && s.Phase == cluster.Running
	})
	f.settled(id, 4)
	f.startedWarm(id)
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.await("nothing to be prepared", func(m *record.Mirror) bool {
		for _, n := range m.Nodes {
			if len(n.Next)+len(n.Ready) > 0 {
				return false
			}
		}
		return true
	})
	f.nothingLeft(id)
	if status := f.show(id); status.Phase != cluster.Stopped {
		t.Errorf("phase %s", status.Phase)
	}
}

// startedWarm reports an error if workers of the job's present generation were not forked, by a launcher
// that knew what to import.
func (f *fleet) startedWarm(id cluster.JobID) {
	f.t.Helper()
	for _, m := range f.show(id).Members {
		if !m.Warm {
			f.t.Errorf("workers on %s were not forked: %q", m.Node, m.Cold)
		}
	}
	if names, err := os.ReadFile(filepath.Join(f.nodeDir(1), "modules", string(id))); err != nil || !strings.Contains(string(names), "argparse") {
		f.t.Errorf("no names of modules are kept: %q, %v", names, err)
	}
}

// prepared waits until so many nodes have said how far they have prepared a generation.
func (f *fleet) prepared(id cluster.JobID, g cluster.Generation, nodes int) {
	f.t.Helper()
	f.await(fmt.Sprintf("generation %d to be prepared on %d nodes", g, nodes), func(m *record.Mirror) bool {
		ready := 0
		for _, n := range m.Nodes {
			if r := n.Ready[id]; r.Exists() && r.Value.Of(n.Next[id].Value) && r.Value.Generation == g {
				ready++
			}
		}
		return ready == nodes
	})
}

// nonceWasPrepared reports an error if a generation has not the nonce that a node was asked to prepare.
func (f *fleet) nonceWasPrepared(id cluster.JobID, g cluster.Generation) {
	f.t.Helper()
	nonce := f.nonce(id, g)
	for _, c := range f.history() {
		if at := record.Locate(c.Key); at.Kind == record.KindNext && at.Job == id && !c.Deleted {
			var next record.Next
			if err := json.Unmarshal(c.Value, &next); err != nil {
				f.t.Fatal(err)
			}
			if next.Generation == g && next.Nonce == nonce {
				return
			}
		}
	}
	f.t.Errorf("generation %d is not the one that was prepared", g)
}
