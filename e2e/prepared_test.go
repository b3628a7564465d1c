package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A Python script is prepared on the nodes of its world, and on those of the world that
// it is about to have; grown, shrunk and with a killed worker it takes each step once, and at
// its end nothing is left.
func TestPrepared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	j := f.sdkJob("warm", 1, 4, 1<<30, 0.05, "--save-every", "10")
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
	if next := f.show(id).Next; len(next) != 2 || next[0].Node != "n1" || !next[0].Ready && next[0].Cold == "" {
		t.Errorf("shown of what is prepared: %+v", next)
	}
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

// importsOnce runs the script that it is given, and says who has imported a module of its own.
const importsOnce = `import os, runpy, sys
import imported_once
print("imported by", "the worker" if imported_once.PID == os.getpid() else "the launcher")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
`

// A node that has never hosted a job learns from one that does what its workers import: a job that
// grows onto it has them forked there, too.
func TestNewNodesLearnWhatIsImported(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 1, policy: "share"})
	for name, text := range map[string]string{"imports_once.py": importsOnce, "imported_once.py": "import os\nPID = os.getpid()\n"} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.05))
	f.settled(other, 1)
	j := f.sdkJob("warm", 1, 2, 1<<30, 0.05)
	command := j["command"].([]string)
	j["command"] = append([]string{command[0], "imports_once.py"}, command[1:]...)
	id := f.submit(j)
	f.settled(id, 1)
	first := indexOf(cluster.NodeID(f.show(id).Members[0].Node))
	f.await("names of modules on the first node", func(*record.Mirror) bool {
		return strings.Contains(f.modules(first, id), "imported_once")
	})
	if names := f.modules(3-first, id); names != "" {
		t.Fatalf("the other node has names already: %q", names)
	}
	f.stop(other)
	g := f.settled(id, 2)
	f.nonceWasPrepared(id, g)
	f.startedWarm(id)
	for rank := range 2 {
		log, _, _ := f.bellows("logs", string(id), "--rank", fmt.Sprint(rank), "--generation", fmt.Sprint(g))
		if !strings.Contains(log, "imported by the launcher") {
			t.Errorf("rank %d in generation %d: %q", rank, g, log)
		}
	}
}

// modules is what a node has kept of the names of a job's modules; empty if nothing.
func (f *fleet) modules(i int, id cluster.JobID) string {
	f.t.Helper()
	names, err := os.ReadFile(filepath.Join(f.nodeDir(i), "modules", string(id)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	return string(names)
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
	if names := f.modules(1, id); !strings.Contains(names, "argparse") {
		f.t.Errorf("no names of modules are kept: %q", names)
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
