package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A node is lost while processes wait there: together with its agent only, with a world that trains there, and without one.
// Each time it comes back, and what waited is prepared anew, so that all starts but the first are warm.
func TestNodesAreLostWhileProcessesWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	id := f.submit(f.gated("warm", 1, 4))
	f.losesWhatWaits(id)
	open := f.losesAWorldAndWhatWaits(id)
	f.losesANodeThatOnlyWaits(id, open)
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	if worlds := oneWorldAtATime(t, f.trace("warm")); worlds != 4 {
		t.Errorf("%d worlds have trained, want 4", worlds)
	}
	if warm, cold := f.starts(id); warm != 5 || len(cold) > 0 {
		t.Errorf("%d starts on a node were warm, want 5, and these were not: %q", warm, cold)
	}
	batches(t, f.trace("warm")) // no sample is missing
}

// losesWhatWaits has an agent killed together with what waits on its node. Its successor, within the lease, takes
// back that it is ready, and is ready again before a worker dies.
func (f *fleet) losesWhatWaits(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 4)
	f.prepared(id, g+1, 2)
	f.killWhatWaits("n2", g+1)
	f.startAgent(2)
	f.await("n2 to be ready again", func(*record.Mirror) bool { return f.readyTwice("n2", id, g+1) })
	f.saidReadyTwice("n2", id, g+1)
	f.prepared(id, g+1, 2)
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	if now := f.awaitRunning(id, 4, g); now != g+1 {
		f.t.Errorf("generation %d runs, want %d", now, g+1)
	}
	f.nonceWasPrepared(id, g+1)
}

// losesAWorldAndWhatWaits has a node stand still that trains and on which something waits: the job goes on with what waits
// on the other. When it goes on itself, what is left there ends. n1 imports nothing more until the gate is opened.
func (f *fleet) losesAWorldAndWhatWaits(id cluster.JobID) (open func()) {
	f.t.Helper()
	g := f.settled(id, 4)
	f.awaitStep("warm", f.lastStep("warm")+100, 4)
	f.prepared(id, g+1, 2)
	open = f.shut("imports-n1")
	left := f.freezeNode("n2", id)
	if len(left) != 4 {
		f.t.Errorf("%d shims and holders stand still on n2, want 2 of a world and 2 of what waits", len(left))
	}
	if now := f.awaitRunning(id, 2, g); now != g+1 {
		f.t.Errorf("generation %d runs, want %d", now, g+1)
	}
	f.nonceWasPrepared(id, g+1)
	f.awaitStep("warm", f.lastStep("warm")+20, 2)
	for _, pid := range left {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			f.t.Error(err)
		}
	}
	f.goneByItself("n2", left...) // the shims wait for an agent to hear of it
	return open
}

// losesANodeThatOnlyWaits has a node killed, all of it, which is ready for a world that another node is not ready for: the
// job trains on. When it is back, it is ready anew before the job is halted.
func (f *fleet) losesANodeThatOnlyWaits(id cluster.JobID, open func()) {
	f.t.Helper()
	g := f.settled(id, 2)
	f.startAgent(2)
	f.await("n2 to be ready", func(*record.Mirror) bool { return slices.Contains(f.said("n2", id, g+1), "") })
	f.killWhatWaits("n2", g+1)
	f.goneByItself("n2")
	f.await("n2 to be given up", func(m *record.Mirror) bool { return !m.Node("n2").Alive.Exists() && !m.Node("n2").Next[id].Exists() })
	f.awaitStep("warm", f.lastStep("warm")+20, 2)
	if s := f.mirror().Job(id).State.Value; s.Generation != g || s.Phase != cluster.Running {
		f.t.Errorf("a node that it did not train on was lost, and it is %s in generation %d, was in %d", s.Phase, s.Generation, g)
	}
	if said := f.said("n1", id, g+1); !slices.Equal(said, []string{"begun"}) {
		f.t.Errorf("n1 cannot import, and has said: %q", said)
	}
	open()
	f.startAgent(2)
	if now := f.settled(id, 4); now != g+1 {
		f.t.Errorf("generation %d has four workers, want %d", now, g+1)
	}
	f.nonceWasPrepared(id, g+1)
	f.saidReadyTwice("n2", id, g+1)
}

// killWhatWaits kills a node's agent and then a shim that waits for its plan there, with all of its own: no agent sees it end.
func (f *fleet) killWhatWaits(n cluster.NodeID, g cluster.Generation) {
	f.t.Helper()
	f.kill("agent-" + string(n))
	dirs, err := filepath.Glob(filepath.Join(f.nodeDir(indexOf(n)), "run", fmt.Sprintf("*-g%d", g)))
	if err != nil || len(dirs) != 1 {
		f.t.Fatalf("directories of generation %d on %s: %q, %v", g, n, dirs, err)
	}
	shims := f.mentioning("shim\x00--dir\x00" + dirs[0] + "\x00")
	if len(shims) != 2 {
		f.t.Errorf("%d processes wait for generation %d on %s, want a shim and its holder", len(shims), g, n)
	}
	for _, pid := range f.mentioning(dirs[0]) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// said lists what a node has said of a generation that it was asked to prepare, in turn: "begun" while processes run ahead, "" when
// they are parked, why it starts cold, and "deleted".
func (f *fleet) said(n cluster.NodeID, id cluster.JobID, g cluster.Generation) (all []string) {
	f.t.Helper()
	ours := false
	for _, c := range f.history() {
		if c.Key != record.ReadyKey(n, id) {
			continue
		}
		var ready record.Ready
		if c.Deleted {
			if ours {
				all = append(all, "deleted")
			}
			ours = false
			continue
		}
		if err := json.Unmarshal(c.Value, &ready); err != nil {
			f.t.Fatal(err)
		}
		if ours = ready.Generation == g; !ours {
			continue
		}
		if ready.Workers == 0 && ready.Cold == "" {
			all = append(all, "begun")
		} else {
			all = append(all, ready.Cold)
		}
	}
	return slices.Compact(all) // a node repeats itself for its life, or of more processes
}

// readyTwice reports whether a node was ready, lost what was parked, and was ready again.
func (f *fleet) readyTwice(n cluster.NodeID, id cluster.JobID, g cluster.Generation) bool {
	f.t.Helper()
	said := slices.DeleteFunc(f.said(n, id, g), func(s string) bool { return s == "deleted" }) // by the leader, of a lost node
	said = slices.Compact(said)
	return len(said) >= 4 && slices.Equal(said[:4], []string{"begun", "", "begun", ""})
}

// saidReadyTwice demands that.
func (f *fleet) saidReadyTwice(n cluster.NodeID, id cluster.JobID, g cluster.Generation) {
	f.t.Helper()
	if !f.readyTwice(n, id, g) {
		f.t.Errorf("%s has said of generation %d: %q, want that it has begun and is ready, twice", n, g, f.said(n, id, g))
	}
}

// goneByItself waits until nothing but these lives any more of a node whose agent does not.
func (f *fleet) goneByItself(n cluster.NodeID, but ...int) {
	f.t.Helper()
	f.eventually("nothing of "+string(n)+" to live", func() bool {
		return !slices.ContainsFunc(f.mentioning(f.nodeDir(indexOf(n))+"/"), func(pid int) bool { return !slices.Contains(but, pid) })
	})
}
