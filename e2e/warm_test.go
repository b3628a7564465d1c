package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// gate is a package of which a test holds up the import on a node. It is a package's and not the user's own code, which
// would be parked when it waits; and it asks by os.stat, so that nothing is compared before the start.
const gate = `import os, time

def shut(name):
    try:
        os.stat(name)
    except FileNotFoundError:
        return False
    return True

while shut("shut-imports-" + os.environ["BELLOWS_NODE"]):
    time.sleep(0.01)
`

// gatedScript imports the gate and what trains, and is parked at the first look at its rank. From there on a test ends it.
const gatedScript = `import os
import gate
import sdk_minimal

RANK = os.environ["RANK"]
asked = sdk_minimal.bellows.should_stop
sdk_minimal.bellows.should_stop = lambda step: os.path.exists("finish") or asked(step)
sdk_minimal.main()
`

// gated is an sdkJob that imports the gate.
func (s *scripts) gated(name string, smallest, largest int) job {
	s.t.Helper()
	s.withPackages(map[string]string{"site-packages/gate.py": gate, "gated.py": gatedScript})
	j := s.sdkJob(name, smallest, largest, 1<<30, 0.05, "--save-every", "10")
	return s.runs(j, "gated.py")
}

// withPackages writes scripts, packages and the example as a module into the job's folder.
func (s *scripts) withPackages(files map[string]string) {
	s.t.Helper()
	minimal, err := os.ReadFile(example(s.t, "sdk_minimal.py"))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, text := range files {
		s.write(name, text)
	}
	s.write("sdk_minimal.py", string(minimal))
}

// write writes a file of the job's owner.
func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// runs has an sdkJob run a script that imports the example, with the packages beside it.
func (s *scripts) runs(j job, script string) job {
	command := j["command"].([]string)
	j["command"] = append([]string{command[0], script}, command[2:]...)
	j["env"] = map[string]string{"PYTHONPATH": filepath.Join(s.dir, "site-packages")}
	return j
}

// shut shuts a gate until it is opened.
func (p *place) shut(name string) (open func()) {
	p.t.Helper()
	file := filepath.Join(p.dir, "shut-"+name)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		p.t.Fatal(err)
	}
	return func() {
		p.t.Helper()
		if err := os.Remove(file); err != nil {
			p.t.Fatal(err)
		}
	}
}

// A Python script is prepared on the nodes of its world, and on those of the world that
// it is about to have; grown, shrunk and with killed workers it takes each step in one
// world at a time, and at its end nothing is left.
func TestPrepared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	id := f.submit(f.gated("warm", 1, 4))
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
	g = f.awaitRunning(id, 4, g)
	f.nonceWasPrepared(id, g)

	// The agent of a node is restarted while something waits there.
	f.settled(id, 4)
	f.prepared(id, g+1, 2)
	f.kill("agent-n2")
	f.startAgent(2)
	f.awaitMembers()
	f.awaitStep("warm", f.lastStep("warm")+100, 4)
	f.prepared(id, g+1, 2)
	f.decidesTwice(id)
	f.failsWhileHalting(id)
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
	if worlds := oneWorldAtATime(t, f.trace("warm")); worlds != 10 {
		t.Errorf("%d worlds have trained, want 10", worlds)
	}
	if warm, cold := f.starts(id); warm < 14 || len(cold) > 0 {
		t.Errorf("%d starts on a node were warm, and these were not: %q", warm, cold)
	}
	batches(t, f.trace("warm")) // no sample is missing
}

// decidesTwice has a job's size decided a second time while its nodes get ready for the first: one halt leads to
// where both are. Then a second time while the world of the first starts.
func (f *fleet) decidesTwice(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 4)
	open := []func(){f.shut("imports-n1"), f.shut("imports-n2")}
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	g = f.awaitRunning(id, 4, g)
	f.settled(id, 4)
	f.scale(id, 1, 2)
	f.awaitDecided(id, 2)
	f.scale(id, 1, 1)
	f.awaitDecided(id, 1)
	f.awaitStep("warm", f.lastStep("warm")+20, 4)
	if s := f.mirror().Job(id).State.Value; s.Generation != g || s.Phase != cluster.Running {
		f.t.Errorf("its nodes are not ready, and it is %s in generation %d, was in %d", s.Phase, s.Generation, g)
	}
	open[0]()
	open[1]()
	if now := f.settled(id, 1); now != g+1 {
		f.t.Errorf("generation %d has one worker, want %d: it went by way of another size", now, g+1)
	}
	f.nonceWasPrepared(id, g+1)
	f.await("what is not wanted any more to be dropped", func(m *record.Mirror) bool {
		on := m.Job(id).Generation(g + 1).Plan.Value.World.Members[0].Node
		for _, n := range m.NodeIDs() {
			if v := m.Node(n); n != on && (v.Next[id].Exists() || v.Ready[id].Exists()) {
				return false
			}
		}
		return true
	})

	f.prepared(id, g+2, 1)
	thaw := f.freezeParked(id, g+2)
	f.scale(id, 1, 2)
	f.await("two workers to be about to start", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation == g+2 && s.Phase == cluster.Starting
	})
	f.scale(id, 1, 4)
	f.awaitDecided(id, 4)
	thaw()
	if now := f.settled(id, 4); now != g+3 {
		f.t.Errorf("generation %d has four workers, want %d", now, g+3)
	}
	f.nonceWasPrepared(id, g+2)
	f.nonceWasPrepared(id, g+3)
	for _, r := range f.show(id).Rescales {
		if r.Generation > uint64(g) && r.LostSteps != 0 {
			f.t.Errorf("generation %d has lost %d steps", r.Generation, r.LostSteps)
		}
	}
}

// awaitDecided waits until the last decision gives a job so many workers.
func (r *records) awaitDecided(id cluster.JobID, workers int) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d workers to be decided", workers), func(m *record.Mirror) bool {
		return slices.ContainsFunc(m.Decision.Value.Moves, func(move record.Move) bool { return move.Job == id && move.To == workers })
	})
}

// failsWhileHalting has a worker killed in the halt of a rescale.
func (f *fleet) failsWhileHalting(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 4)
	f.awaitStep("warm", f.lastStep("warm")+100, 4)
	f.freeze(id, g)
	f.scale(id, 1, 2)
	f.awaitPhase(id, cluster.Halting)
	_ = syscall.Kill(f.mirror().Node("n1").Ack(id, g, f.nonce(id, g)).Started.Value.Workers[0].PID, syscall.SIGKILL)
	if now := f.settled(id, 2); now != g+1 {
		f.t.Errorf("generation %d has two workers, want %d", now, g+1)
	}
	f.nonceWasPrepared(id, g+1)
	f.scale(id, 1, 4)
	f.settled(id, 4)
	f.nonceWasPrepared(id, g+2)
}

// oneWorldAtATime demands of a trace, whose lines are in the order in which they were written, that no rank of a world took
// a step once one of a newer world had, and none a step twice. It returns how many worlds there were.
func oneWorldAtATime(t *testing.T, lines []traceLine) (worlds int) {
	t.Helper()
	type take struct{ generation, rank, step int }
	taken, newest := map[take]bool{}, 0
	for _, l := range lines {
		this := take{l.Generation, l.Rank, l.Step}
		if l.Generation < newest || taken[this] {
			t.Errorf("%+v after one of generation %d; taken before: %v", this, newest, taken[this])
		}
		if l.Generation > newest {
			newest = l.Generation
			worlds++
		}
		taken[this] = true
	}
	return worlds
}

// starts counts the nodes' starts of a job that were warm, and names the others but the first's.
func (f *fleet) starts(id cluster.JobID) (warm int, cold []string) {
	f.t.Helper()
	for _, c := range f.history() {
		at := record.Locate(c.Key)
		if at.Kind != record.KindAck || at.Job != id || at.Name != string(record.AckStarted) || c.Deleted || at.Generation == 1 {
			continue
		}
		var started record.Started
		if err := json.Unmarshal(c.Value, &started); err != nil {
			f.t.Fatal(err)
		}
		if started.Warm {
			warm++
		} else {
			cold = append(cold, fmt.Sprintf("generation %d on %s: %s", at.Generation, at.Node, started.Cold))
		}
	}
	return warm, cold
}

// parked are the processes that run ahead for a generation that has not begun, or are parked, by what they were executed with.
func (ps *processes) parked(id cluster.JobID, g cluster.Generation) (pids []int) {
	for _, pid := range ps.workers(id) {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(environ), fmt.Sprintf("BELLOWS_GENERATION=%d\x00", g)) && !strings.Contains(string(environ), "\x00RANK=") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// freezeParked has what is parked stand still. It is released as soon as it goes on, within the 15 s in which it has to answer.
func (f *fleet) freezeParked(id cluster.JobID, g cluster.Generation) (thaw func()) {
	f.t.Helper()
	pids := f.parked(id, g)
	if len(pids) == 0 {
		f.t.Fatalf("nothing of generation %d is parked", g)
	}
	signal := func(what syscall.Signal) {
		f.t.Helper()
		for _, pid := range pids {
			if err := syscall.Kill(pid, what); err != nil {
				f.t.Error(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	return func() { f.t.Helper(); signal(syscall.SIGCONT) }
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
