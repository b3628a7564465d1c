package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// servers run etcd inside coordinators, each with an address and data of its own.
type servers struct {
	f       *fleet
	members []string // as --etcd-members has them
}

func (s *secrets) server(name string) string { return s.addr(100 + int(name[1]-'0')) }

func (s *secrets) memberURL(name string) string {
	return fmt.Sprintf("%s=https://%s:2380", name, s.server(name))
}

// identity makes the folder of certificates of a name, once.
func (s *secrets) identity(name string, issued ...string) string {
	s.t.Helper()
	ca, out := filepath.Join(s.dir, "ca"), filepath.Join(s.dir, "tls-"+name)
	if _, err := os.Stat(ca); err != nil {
		s.run(exec.Command(plain, "tls", "init", "--ca", ca))
	}
	if _, err := os.Stat(out); err != nil {
		s.run(exec.Command(plain, append([]string{"tls", "issue", name, "--ca", ca, "--out", out}, issued...)...))
	}
	return out
}

// startServers starts coordinators that found an etcd.
func (f *fleet) startServers(names ...string) *servers {
	f.t.Helper()
	s := &servers{f: f}
	var endpoints []string
	for _, name := range names {
		s.members = append(s.members, f.memberURL(name))
		endpoints = append(endpoints, "https://"+f.server(name)+":2379")
	}
	for _, name := range names {
		s.start(name)
	}
	f.endpoint = strings.Join(endpoints, ",")
	identity, err := trust.Load(f.identity("watcher"), "watcher")
	if err != nil {
		f.t.Fatal(err)
	}
	f.store, err = store.Open(context.Background(), store.Config{
		Endpoints: endpoints, TLS: identity.Any(), DialTimeout: patience, CallTimeout: patience / 4, Log: zerolog.Nop(),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// settings are those of a server, for its coordinator and for bellows etcd.
func (s *servers) settings(name string) []string {
	return []string{
		"--config", "none", "--etcd", "embedded", "--name", name, "--tls-dir", s.f.identity(name),
		"--etcd-members", strings.Join(s.members, ","),
	}
}

func (s *servers) start(name string) *proc {
	s.f.t.Helper()
	args := append([]string{"coordinator"}, s.settings(name)...)
	program := s.f.program(1+slices.Index(s.members, s.f.memberURL(name)), len(s.members))
	return s.f.startProgram("coordinator-"+name, program, append(args, "--data-dir", s.dir(name),
		"--policy", s.f.config.policy, "--interval", s.f.config.interval.String(), "--migrations", "0")...)
}

func (s *servers) dir(name string) string { return filepath.Join(s.f.dir, "etcd-"+name) }

// etcd is bellows etcd on a server.
func (s *servers) etcd(name, command string, args ...string) (string, string, int) {
	s.f.t.Helper()
	return s.f.bellows(append(append([]string{"etcd", command}, s.settings(name)...), args...)...)
}

func (s *servers) must(name, command string, args ...string) string {
	s.f.t.Helper()
	out, errs, code := s.etcd(name, command, args...)
	if code != 0 {
		s.f.t.Fatalf("bellows etcd %s %v exited %d: %s", command, args, code, errs)
	}
	return out
}

// awaitState waits until all members are in a state, as "n1 leader".
func (s *servers) awaitState(on string, want func(states map[string]string) bool) map[string]string {
	s.f.t.Helper()
	var said string
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		var list []struct{ Name, State string }
		out, errs, code := s.etcd(on, "members", "-o", "json")
		said = out + errs
		states := map[string]string{}
		if code == 0 && json.Unmarshal([]byte(out), &list) == nil {
			for _, m := range list {
				states[m.Name] = m.State
			}
			if want(states) {
				return states
			}
		}
		if time.Now().After(deadline) {
			s.f.t.Fatalf("the members of etcd are never as wanted: %s", said)
		}
	}
}

// settled is whether these and no others vote, one of them leading.
func settled(names ...string) func(map[string]string) bool {
	return func(states map[string]string) bool {
		led := false
		for _, name := range names {
			if states[name] != "member" && states[name] != "leader" {
				return false
			}
			led = led || states[name] == "leader"
		}
		return led && len(states) == len(names)
	}
}

// Three servers run etcd inside their coordinators. One is killed: jobs go on
// being rescaled. It is lost for good, and replaced. All are killed: nodes
// end their workers, as they cannot know that they are not given up, and jobs go
// on from their last checkpoint once the servers are back.
func TestEtcdOnThreeServers(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	s := f.startServers("c1", "c2", "c3")
	for i := range f.config.nodes {
		f.startAgent(i+1, "--tls-dir", f.identity(string(node(i+1))))
	}
	f.awaitMembers()
	states := s.awaitState("c1", settled("c1", "c2", "c3"))
	id := f.submit(f.sdkJob("a", 1, 4, 1<<30, 0.2, "--save-every", "50"))
	f.awaitStep("a", 1, 4)

	// The server that leads etcd is killed, and its disk with it.
	lost := ""
	for name, state := range states {
		if state == "leader" {
			lost = name
		}
	}
	others := slices.DeleteFunc([]string{"c1", "c2", "c3"}, func(name string) bool { return name == lost })
	f.kill("coordinator-" + lost)
	if err := os.RemoveAll(s.dir(lost)); err != nil {
		t.Fatal(err)
	}
	b := f.submit(f.sdkJob("b", 2, 2, 1<<30, 0.2))
	f.awaitStep("a", f.lastStep("a"), 2)
	f.awaitLog(f.procs["coordinator-"+others[0]], "a member of etcd does not answer", f.server(lost))

	// It does not come back by itself, and is not needed for a quorum while the others are.
	f.mustGiveUp(s.start(lost), "has no data, but", "bellows etcd remove "+lost)
	if _, errs, code := s.etcd(others[0], "remove", others[1]); code != 1 || !strings.Contains(errs, "only 1 would answer (not "+lost+")") {
		t.Errorf("remove one that is needed: exit %d, %s", code, errs)
	}
	s.must(others[0], "remove", lost)
	s.must(others[0], "add", "c4", "https://"+f.server("c4")+":2380")
	s.members = []string{f.memberURL(others[0]), f.memberURL(others[1]), f.memberURL("c4")}
	s.start("c4")
	now := append(others, "c4")
	s.awaitState(others[0], settled(now...))
	f.kill("coordinator-" + others[0]) // the new one counts
	f.stop(b)
	f.awaitStep("a", f.lastStep("a"), 4)

	// No quorum is left, then no member at all.
	before := f.mirror().Job(id).State.Value
	f.kill("coordinator-" + others[1])
	f.awaitLog(f.procs["coordinator-c4"], "etcd has no quorum: nothing is decided")
	f.kill("coordinator-c4")
	f.eventually("workers to end by themselves", func() bool { return len(f.workers(id)) == 0 })
	for _, name := range now {
		s.start(name)
	}
	s.awaitState("c4", settled(now...))
	f.await("a leader and the nodes", func(m *record.Mirror) bool {
		return len(m.Leaders) > 0 && m.Node("n1").Alive.Exists() && m.Node("n2").Alive.Exists()
	})
	f.awaitLine("a", "a step of the next generation", func(l traceLine) bool {
		return l.Generation > int(before.Generation) && l.WorldSize == 4
	})
	if after := f.mirror().Job(id).State.Value; after.Restarts != before.Restarts {
		t.Errorf("the loss of all servers was charged to the job: %+v, then %+v", before, after)
	}
	f.submit(f.sdkJob("c", 2, 2, 1<<30, 0.2))
	f.awaitStep("a", f.lastStep("a"), 2)
	f.mustBellows("stop", "-w", "c")
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	batches(t, f.trace("a")) // no step is missing
}

// mustEnd waits until a process has ended with an error and these last words.
func (ps *processes) mustEnd(p *proc, says ...string) {
	ps.t.Helper()
	ps.mustEndWith(1, p, says...)
}

// mustGiveUp is mustEnd with the status on which a unit does not start it again.
func (ps *processes) mustGiveUp(p *proc, says ...string) {
	ps.t.Helper()
	ps.mustEndWith(2, p, says...)
}

func (ps *processes) mustEndWith(status int, p *proc, says ...string) {
	ps.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		ps.t.Fatalf("%s goes on", p.name)
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		ps.t.Fatal(err)
	}
	last := lastLine(string(text))
	for _, want := range says {
		if !strings.Contains(last, want) {
			ps.t.Errorf("the last words of %s, %q, lack %q", p.name, last, want)
		}
	}
	if p.cmd.ProcessState.ExitCode() != status {
		ps.t.Errorf("%s: %v, want status %d", p.name, p.cmd.ProcessState, status)
	}
}

// A server that was alone becomes the first of three; a snapshot of it all is
// restored when every disk is lost, and a job goes on from the checkpoint of that time.
func TestOneServerBecomesThreeAndIsRestored(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{devices: 1})
	s := f.startServers("c1")
	f.startAgent(1, "--tls-dir", f.identity("n1"))
	f.awaitMembers()
	id := f.submit(f.sdkJob("a", 1, 1, 1<<30, 0.05, "--save-every", "20"))
	f.await("a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Exists() })
	workers := f.started(id)

	grown := append(s.members, f.memberURL("c2"), f.memberURL("c3"))
	for _, name := range []string{"c2", "c3"} {
		s.must("c1", "add", name, "https://"+f.server(name)+":2380")
		alone := s.members
		s.members = grown
		s.start(name)
		s.members = alone
		s.awaitState("c1", func(states map[string]string) bool { return states[name] == "member" })
	}
	s.members = grown
	s.awaitState("c3", settled("c1", "c2", "c3"))
	if !slices.Equal(workers, f.started(id)) {
		t.Error("two more servers restarted workers")
	}
	file := filepath.Join(f.dir, "backup")
	s.must("c2", "snapshot", file)
	kept := f.mirror().Job(id).Committed.Value.Step
	f.await("a checkpoint that the backup does not know", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step > kept })

	f.killNode("n1")
	for _, name := range []string{"c1", "c2", "c3"} {
		f.kill("coordinator-" + name)
		if err := os.RemoveAll(s.dir(name)); err != nil {
			t.Fatal(err)
		}
		s.must(name, "restore", file, "--data-dir", s.dir(name))
	}
	for _, name := range []string{"c1", "c2", "c3"} {
		s.start(name)
	}
	s.awaitState("c1", settled("c1", "c2", "c3"))
	f.startAgent(1, "--tls-dir", f.identity("n1"))
	m := f.await("the job to go on in another generation", func(m *record.Mirror) bool {
		state := m.Job(id).State.Value
		return state.Phase == cluster.Running && state.Generation > 1
	})
	if from := m.Job(id).Generation(2).Plan.Value.Resume; from == nil || from.Step < kept {
		t.Errorf("it resumed from %+v, and the backup knows %d", from, kept)
	}
	f.await("the next checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step > kept })
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
}

// What is wrong with one server is said by it, and the others go on.
func TestWhatIsWrongWithAServer(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{})
	s := f.startServers("c1", "c2", "c3")
	s.awaitState("c1", settled("c1", "c2", "c3"))
	c3 := f.procs["coordinator-c3"]
	_ = c3.cmd.Process.Signal(syscall.SIGTERM)
	<-c3.done
	if code := c3.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("told to end it ended with %d", code)
	}

	run := func(more ...string) *proc {
		t.Helper()
		args := append([]string{"coordinator"}, s.settings("c3")...)
		return f.start("coordinator-c3", append(args, more...)...)
	}
	f.mustEnd(run("--data-dir", s.dir("c2")), "data directory "+s.dir("c2")+": in use by another process")
	f.mustGiveUp(run("--data-dir", s.dir("c3"), "--cluster", "mine"), `data directory `+s.dir("c3")+` holds cluster "bellows", not "mine"`)
	f.kill("coordinator-c2")
	f.mustGiveUp(run("--data-dir", s.dir("c2")), `is of member "c2", not "c3"`)
	s.start("c2")
	s.awaitState("c1", func(states map[string]string) bool { return states["c2"] != "silent" })

	taken := f.listenTCP(f.server("c3") + ":4379")
	f.mustEnd(run("--data-dir", s.dir("c3"), "--etcd-client", taken), taken, "address already in use", "choose another port")
	f.mustGiveUp(run("--data-dir", s.dir("c3"), "--tls-dir", f.identity("c1")), "it is of node c1, and this is node c3")
	f.mustGiveUp(run("--data-dir", s.dir("c3"), "--tls-dir", filepath.Join(f.dir, "nothing")), "bellows tls issue c3 makes them")
	s.start("c3")
	s.awaitState("c1", settled("c1", "c2", "c3"))

	// Removed while it runs, and when it is started again.
	running := f.procs["coordinator-c3"]
	s.must("c1", "remove", "c3")
	f.mustGiveUp(running, "this member, c3, was removed from its cluster", "bellows etcd add c3")
	f.mustGiveUp(s.start("c3"), "this member, c3, was removed from its cluster", "bellows etcd add c3")
	s.awaitState("c1", settled("c1", "c2"))
}

// A server whose disk is full ends and says why; the others go on, and it comes
// back with all its data once there is room.
func TestAFullDiskUnderEtcd(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := emptyFleet(t, config{})
	const mib = 200 // etcd reserves two logs of 64 MiB
	disk := f.smallDisk("etcd-c3", mib)
	s := f.startServers("c1", "c2", "c3")
	s.awaitState("c1", settled("c1", "c2", "c3"))
	f.fill(disk)
	full := f.procs["coordinator-c3"]
	value := strings.Repeat("x", 1<<20)
	f.eventually("the server with the full disk to end", func() bool {
		out := f.store.Commit(t.Context(), record.Txn{ID: "much", Then: []record.Op{{Key: "elsewhere", Value: []byte(value)}}})
		if out.Result != record.Applied {
			t.Logf("not written: %v", out.Err)
		}
		select {
		case <-full.done:
			return true
		default:
			return false
		}
	})
	remedy := []string{"no space left on device: ", "make room there and start it again; nothing is lost"}
	f.mustEnd(full, append(remedy, "etcd cannot go on: ")...)
	// An etcd that ends may give back the log that it had begun to reserve, and with that room it would start.
	ballast := f.fill(disk)
	f.mustEnd(s.start("c3"), append(remedy, s.dir("c3"))...)
	f.makeRoom(ballast)
	s.start("c3")
	s.awaitState("c1", settled("c1", "c2", "c3"))
}
