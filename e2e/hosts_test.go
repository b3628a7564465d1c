package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// inside marks the test process that has a network of its own: it has the path of the built program.
const inside = "BELLOWS_E2E_NETWORK"

// Three hosts, each a network namespace with an address of its own on one
// switch, with data and logs of their own; shared are etcd, which stands on the
// switch's own address, and the checkpoint directory. It needs root, as only root
// may make namespaces; as another user it asks for them in a user namespace.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	f := emptyFleet(t, config{nodes: 3, devices: 1, policy: "share", interval: 300 * time.Millisecond})
	f.connectHosts()
	f.startEtcd()
	f.startCoordinator(1)
	for i := range f.config.nodes {
		f.startAgent(i+1, "--gossip-key-file", f.gossipKey(), "--tls-dir", f.certificate(i+1))
	}
	f.awaitMembers()

	// What devices do is asked of each host's agent over TLS, which says here that there is nothing to read.
	for i := range f.config.nodes {
		f.awaitNode(node(i+1), "why its devices have no readings", func(n api.NodeStatus) bool { return n.NoReadings == "simulated devices have none" })
	}

	// Submitted and followed on n1, which is drained: trained on n2 and n3.
	f.mustBellows("drain", "n1")
	j := f.sdkJob("a", 1, 2, 1<<20, 0.05, "--save-every", "20")
	id := f.submit(j)
	f.awaitStep("a", 1, 2)
	follow := startSession(t, f.command(1, "logs", "-f", "a"))
	workers := func(want ...cluster.NodeID) {
		t.Helper()
		f.await(fmt.Sprintf("workers on %v", want), func(m *record.Mirror) bool {
			v := m.Job(id)
			g := v.Generation(v.State.Value.Generation)
			var on []cluster.NodeID
			for _, member := range g.Plan.Value.World.Members {
				on = append(on, member.Node)
			}
			slices.Sort(on)
			return v.State.Value.Phase == cluster.Running && slices.Equal(on, want)
		})
	}
	workers("n2", "n3")

	// Rescaled for another job, and back.
	other := f.submit(f.sdkJob("b", 1, 1, 1<<20, 0.05))
	f.awaitStep("a", f.lastStep("a"), 1)
	f.mustBellows("stop", string(other))
	f.awaitStep("a", f.lastStep("a"), 2)

	// n1 takes the place of n3, which is drained: no step is lost.
	f.mustBellows("undrain", "n1")
	f.mustBellows("drain", "n3")
	workers("n1", "n2")
	f.awaitStep("a", f.lastStep("a"), 2)
	for _, r := range f.show(id).Rescales {
		if r.LostSteps != 0 {
			t.Errorf("generation %d lost %d steps to a planned change", r.Generation, r.LostSteps)
		}
	}

	// n2 is lost, with all that runs there, and n3 takes its place.
	f.mustBellows("undrain", "n3")
	f.switchOff(2)
	workers("n1", "n3")
	f.awaitStep("a", f.lastStep("a"), 2)

	// A follower on n1 has seen the ranks of every node, n2's until it was lost.
	f.mustBellows("stop", "-w", "a")
	if code := follow.wait(); code != 1 || !strings.Contains(follow.errs.String(), "node n2: ") {
		t.Errorf("logs -f ended with %d, and n2 could not hand over the last of its lines\n%s", code, follow.errs)
	}
	for _, want := range []string{"[0] ", "[1] "} {
		if seen := follow.out.String(); !strings.Contains(seen, want) {
			t.Errorf("the log that was followed on n1 lacks %q:\n%s\n%s", want, seen, follow.errs)
		}
	}
}

// ownNetwork runs the test once more, in a process with a network of its own, and
// reports whether this is that process.
func ownNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=25m")
	cmd.Env = append(os.Environ(), inside+"="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in a network of its own: %v\n%s", err, out)
	}
	return false
}

// mustBellows runs a command against n1's agent that has to succeed.
func (u *people) mustBellows(args ...string) {
	u.t.Helper()
	if out, errs, code := u.patiently(args...); code != 0 {
		u.t.Fatalf("bellows %s exited %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
}

// patiently runs a command again while it says that nothing answers in time, as on a
// busy machine: asking for the same again is safe.
func (u *people) patiently(args ...string) (stdout, stderr string, code int) {
	u.t.Helper()
	const unanswered = 3
	for end := time.Now().Add(patience); ; time.Sleep(time.Second) {
		if stdout, stderr, code = u.bellows(args...); code != unanswered || time.Now().After(end) {
			return stdout, stderr, code
		}
	}
}

// connectHosts makes a host for each node, all on one switch. The fleet lives in
// a network namespace of its own already, which is the switch.
func (f *fleet) connectHosts() {
	f.t.Helper()
	f.ip("link", "set", "lo", "up")
	// With an address of its own: it would take the least of its wires', and another when that wire goes with its host.
	f.ip("link", "add", "switch", "address", "02:00:0a:4d:00:fe", "type", "bridge")
	f.ip("addr", "add", "10.77.0.254/24", "dev", "switch")
	f.ip("link", "set", "switch", "up")
	f.endpoint = "10.77.0.254:0"
	for i := range f.config.nodes {
		holder := exec.Command("sleep", "infinity")
		holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := holder.Start(); err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
		pid, wire := fmt.Sprint(holder.Process.Pid), fmt.Sprintf("wire%d", i+1)
		f.hosts = append(f.hosts, holder.Process.Pid)
		f.ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", pid)
		f.ip("link", "set", wire, "master", "switch", "up")
		for _, args := range [][]string{
			{"link", "set", "lo", "up"},
			{"addr", "add", f.addr(i+1) + "/24", "dev", "eth0"},
			{"link", "set", "eth0", "up"},
		} {
			f.ipOn(i+1, args...)
		}
	}
}

// ipOn runs ip on node i's host.
func (p *place) ipOn(i int, args ...string) {
	p.t.Helper()
	p.run(exec.Command("nsenter", append([]string{"-t", fmt.Sprint(p.hosts[i-1]), "-n", "ip"}, args...)...))
}

func (p *place) ip(args ...string) {
	p.t.Helper()
	p.run(exec.Command("ip", args...))
}

func (p *place) run(cmd *exec.Cmd) {
	p.t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// switchOff kills everything on a host at once, as a power cut does.
func (p *place) switchOff(i int) {
	p.t.Helper()
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.hosts[i-1]))
	if err != nil {
		p.t.Fatal(err)
	}
	entries, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, entry := range entries {
		var pid int
		if there, err := os.Readlink(entry); err != nil || there != at {
			continue
		}
		if _, err := fmt.Sscanf(entry, "/proc/%d/", &pid); err != nil {
			p.t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// gossipKey is the file with the fleet's key. It is written once: an agent that was
// started a moment ago may be about to read it.
func (s *secrets) gossipKey() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "gossip.key")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.WriteFile(path, []byte("0123456789abcdef"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// An agent that was started may read the key at any moment: it is never empty.
func TestTheGossipKeyIsWrittenOnce(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{})
	key := f.gossipKey()
	const other = "fedcba9876543210"
	if err := os.WriteFile(key, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := f.gossipKey(); again != key {
		t.Errorf("another key: %s, %s", key, again)
	}
	if text, err := os.ReadFile(key); err != nil || string(text) != other {
		t.Errorf("it was written again: %q, %v", text, err)
	}
}

// certificate makes node i's folder of certificates, and the authority with the first.
func (s *secrets) certificate(i int) string {
	s.t.Helper()
	ca, out := filepath.Join(s.dir, "ca"), filepath.Join(s.dir, "tls-"+string(node(i)))
	if _, err := os.Stat(ca); err != nil {
		s.run(exec.Command(plain, "tls", "init", "--ca", ca))
	}
	s.run(exec.Command(plain, "tls", "issue", string(node(i)), "--ca", ca, "--out", out))
	return out
}
