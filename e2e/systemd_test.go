package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// machine is a machine of its own as far as systemd is concerned: process 1 in namespaces.
type machine struct {
	at  *place
	pid int
}

// bootMachine starts systemd. It shares the fleet's directory, the built program's
// and the repository with the machine.
func (p *place) bootMachine() *machine {
	p.t.Helper()
	return p.bootBy("systemd")
}

// bootHost is bootMachine with the network of the fleet's host i.
func (p *place) bootHost(i int) *machine {
	p.t.Helper()
	return p.bootBy("systemd-"+string(node(i)), "nsenter", "-t", fmt.Sprint(p.hosts[i-1]), "-n")
}

func (p *place) bootBy(name string, by ...string) *machine {
	p.t.Helper()
	repository, err := filepath.Abs("..")
	if err != nil {
		p.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bellows-systemd-")
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	by = append(by, "testdata/systemd", dir, p.dir, filepath.Dir(binary), repository)
	cmd := exec.Command(by[0], by[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	m := &machine{at: p}
	p.t.Cleanup(func() {
		if m.pid != 0 {
			_ = syscall.Kill(m.pid, syscall.SIGKILL) // and all that is in its namespace
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		removeCgroups(filepath.Base(dir))
		_ = os.RemoveAll(dir)
	})
	p.eventually("systemd to be up", func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			return false
		}
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(comm)) != "systemd" {
			return false
		}
		m.pid = pid
		out, _ := m.try("systemctl", "is-system-running")
		return strings.TrimSpace(out) == "running"
	})
	return m
}

// removeCgroups takes away what systemd has left of the cgroup that it was started in.
func removeCgroups(name string) {
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		removeCgroup(filepath.Join(root, name))
	}
}

func (m *machine) try(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(m.pid), "-m", "-p", "-u", "-i", "-C", "-n", "--"}, args...)...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) run(args ...string) string {
	m.at.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.at.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (m *machine) property(name string) string {
	m.at.t.Helper()
	return m.run("systemctl", "show", "--value", "--property", name, "bellows-agent.service")
}

// locked are the limits of memory that a process may pin, the one in force and
// the highest. The unit asks for no limit; a machine may have one of its own.
func (m *machine) locked(pid string) (limits [2]string) {
	m.at.t.Helper()
	found := regexp.MustCompile(`Max locked memory +(\S+) +(\S+)`).FindStringSubmatch(m.run("cat", "/proc/"+pid+"/limits"))
	if found == nil {
		m.at.t.Fatalf("process %s has no limit of locked memory", pid)
	}
	copy(limits[:], found[1:])
	return limits
}

// scopes lists the scopes of jobs.
func (m *machine) scopes() []string {
	m.at.t.Helper()
	out := m.run("systemctl", "list-units", "--plain", "--no-legend", "--type=scope", "bellows-*.scope")
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
}

// eventually waits until it is so. It looks less often the longer that takes: most looks start a process.
func (p *place) eventually(what string, ok func() bool) {
	p.t.Helper()
	pause := 50 * time.Millisecond
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(pause) {
		pause = min(pause*5/4, 300*time.Millisecond)
		if time.Now().After(deadline) {
			p.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// installed is the fleet's only node, which no load can have fenced: its agent is a service of a real systemd.
func (f *fleet) installed(m *machine) {
	f.t.Helper()
	install, err := filepath.Abs("../scripts/install")
	if err != nil {
		f.t.Fatal(err)
	}
	m.run(install, "--binary", binary)
	m.run(install, "--binary", binary) // which may be repeated
	flags := fmt.Sprintf("AGENT_FLAGS=--node n1 --etcd %s --bind %s --socket %s --data-dir %s --simulate-devices 2 --lock-dir %s\n",
		f.etcd.Endpoint(), f.addr(1), f.socket(1), f.nodeDir(1), filepath.Join(f.dir, "locks"))
	settings := filepath.Join(f.dir, "agent.env")
	if err := os.WriteFile(settings, []byte(flags), 0o600); err != nil {
		f.t.Fatal(err)
	}
	m.run("cp", settings, "/etc/bellows/agent.env")
	m.run(install, "--binary", binary, "--agent")
	if kept := m.run("cat", "/etc/bellows/agent.env"); kept != strings.TrimSpace(flags) {
		f.t.Errorf("the installer has changed the settings: %s", kept)
	}
	f.eventually("the agent to be active", func() bool { return m.property("ActiveState") == "active" })
}

// needsSystemd leaves out a test on a machine that cannot have a systemd of the
// test's own: scripts/setup installs one, but only root may start it.
func needsSystemd(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/lib/systemd/systemd"); os.Geteuid() != 0 || err != nil {
		t.Skip("a systemd of the test's own needs systemd installed, and root for its namespaces")
	}
}

// Under systemd, nothing that is done to the agent's unit touches training.
func TestTheAgentsUnitMayBeKilledRestartedAndUpgraded(t *testing.T) {
	needsSystemd(t)
	t.Parallel()
	f := emptyFleet(t, config{})
	f.startEtcd()
	f.startCoordinator(1)
	m := f.bootMachine()
	f.installed(m)
	f.awaitMembers()
	id := f.submit(f.sdkJob("steady", 2, 2, 1000000, 0.1))
	f.awaitStep("steady", 3, 2)
	f.awaitPhase(id, cluster.Running) // which is when all have said that they have started
	before := f.mirror().Node("n1").Ack(id, 1, f.nonce(id, 1)).Started.Value
	if len(before.Workers) != 2 {
		t.Fatalf("the workers are not on the machine: %+v", before)
	}
	if scopes := m.scopes(); len(scopes) != 1 || !strings.HasPrefix(scopes[0], "bellows-"+string(id)+"-1-") {
		t.Errorf("scopes %q", scopes)
	}
	for _, w := range before.Workers {
		if group := m.run("cat", fmt.Sprintf("/proc/%d/cgroup", w.PID)); !strings.Contains(group, "bellows.slice/bellows-"+string(id)+"-1-") {
			t.Errorf("rank %d is in %s", w.Rank, group)
		}
		if own, agents := m.locked(fmt.Sprint(w.PID)), m.locked(m.property("MainPID")); own[0] != own[1] || own != agents {
			t.Errorf("rank %d may pin %v of memory, the agent %v", w.Rank, own, agents)
		}
	}
	untouched := func(what string) {
		t.Helper()
		f.awaitStep("steady", f.lastStep("steady")+10, 2)
		s := f.mirror().Job(id).State.Value
		if now := f.mirror().Node("n1").Ack(id, s.Generation, f.nonce(id, s.Generation)).Started.Value; s.Generation != 1 || s.Phase != cluster.Running || !slices.Equal(now.Workers, before.Workers) {
			t.Fatalf("after %s: %+v, workers %v, were %v", what, s, now.Workers, before.Workers)
		}
		for _, w := range before.Workers {
			stat := strings.Fields(m.run("cat", fmt.Sprintf("/proc/%d/stat", w.PID)))
			if stat[21] != fmt.Sprint(w.StartTime) {
				t.Errorf("after %s: pid %d is another process now", what, w.PID)
			}
		}
	}
	again := func(what string, do func()) {
		t.Helper()
		main := m.property("MainPID")
		do()
		f.eventually("the agent to be back after "+what, func() bool {
			now := m.property("MainPID")
			return now != main && now != "0" && m.property("ActiveState") == "active"
		})
		untouched(what)
	}
	for range 3 {
		again("kill -9", func() { m.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "bellows-agent.service") })
	}
	again("systemctl restart", func() { m.run("systemctl", "restart", "bellows-agent.service") })
	again("an upgrade", func() { f.upgrade(m) })
	again("a stop and a start", func() {
		m.run("systemctl", "stop", "bellows-agent.service")
		m.run("systemctl", "start", "bellows-agent.service")
	})
	// An agent that hangs is ended by the watchdog. Whether it is back before its
	// lease ends is a matter of the machine's load: the job goes on in any case.
	main := m.property("MainPID")
	m.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", "bellows-agent.service")
	f.eventually("the watchdog to bite", func() bool {
		now := m.property("MainPID")
		return now != main && now != "0" && m.property("ActiveState") == "active"
	})
	f.awaitStep("steady", f.lastStep("steady")+10, 2)
	t.Logf("after a hang the job is in generation %d", f.mirror().Job(id).State.Value.Generation)
	f.uninstall(m, id)
}

// upgrade installs another build, as bytes go, over the one that runs.
func (f *fleet) upgrade(m *machine) {
	f.t.Helper()
	program, err := os.ReadFile(binary)
	if err != nil {
		f.t.Fatal(err)
	}
	program = append(program, "a newer build"...) // the loader does not mind
	newer := filepath.Join(f.dir, "newer")
	if err = os.WriteFile(newer, program, 0o755); err != nil { //nolint:gosec // a program
		f.t.Fatal(err)
	}
	install, err := filepath.Abs("../scripts/install")
	if err != nil {
		f.t.Fatal(err)
	}
	m.run(install, "--binary", newer)
	want := fmt.Sprintf("%x", sha256.Sum256(program))
	f.eventually("the newer build to run", func() bool {
		out, err := m.try("sha256sum", "/proc/"+m.property("MainPID")+"/exe")
		return err == nil && bytes.HasPrefix([]byte(out), []byte(want))
	})
}

// uninstall refuses while a job runs, and leaves nothing once none does.
func (f *fleet) uninstall(m *machine, id cluster.JobID) {
	f.t.Helper()
	script, err := filepath.Abs("../scripts/uninstall")
	if err != nil {
		f.t.Fatal(err)
	}
	if out, err := m.try(script); err == nil || !strings.Contains(out, "jobs run here") {
		f.t.Errorf("with a job running: %v, %s", err, out)
	}
	f.stop(id)
	f.await("the job to stop", func(r *record.Mirror) bool { return r.Job(id).State.Value.Phase == cluster.Stopped })
	f.eventually("its scope to go", func() bool { return len(m.scopes()) == 0 })
	m.run(script)
	m.run(script) // which may be repeated
	if out, err := m.try("systemctl", "cat", "bellows-agent.service"); err == nil {
		f.t.Errorf("the unit is left: %s", out)
	}
}
