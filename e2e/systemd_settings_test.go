package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// write puts a file into the machine.
func (m *machine) write(path, text string) {
	m.at.t.Helper()
	file := filepath.Join(m.at.dir, "to-be-copied")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		m.at.t.Fatal(err)
	}
	m.run("cp", file, path)
}

func (m *machine) awaitAgent(state string) {
	m.at.t.Helper()
	m.at.eventually("the agent's unit to be "+state, func() bool { return m.property("ActiveState") == state })
}

// Settings that only a person can mend end the agent's unit, which says so; what
// passes by itself is tried again, and not five times a second. An upgrade does
// not restart an agent that the new program would not let come back.
func TestTheAgentsUnitWithWrongSettings(t *testing.T) {
	needsSystemd(t)
	t.Parallel()
	f := emptyFleet(t, config{})
	f.startEtcd()
	f.startCoordinator(1)
	m := f.bootMachine()
	f.installed(m)
	f.awaitMembers()
	const settings, misspelt = "/etc/bellows/agent.yaml", "keep-logs: 48h\nkeep-locks: 1h\n"
	install, err := filepath.Abs("../scripts/install")
	if err != nil {
		t.Fatal(err)
	}
	id := f.submit(f.sdkJob("steady", 2, 2, 1000000, 0.1))
	f.awaitStep("steady", 3, 2)

	m.write(settings, misspelt)
	main := m.property("MainPID")
	out, err := m.try(install, "--binary", binary)
	if err == nil || !containsAll(out, settings+`:2: unknown key "keep-locks"`, "bellows-agent goes on with the program of before: mend "+settings) {
		t.Errorf("an upgrade over wrong settings: %v\n%s", err, out)
	}
	m.run("cp", binary, "/usr/bin/bellows")
	out, err = m.try(filepath.Join(filepath.Dir(install), "package", "postinst"), "configure")
	if err != nil || !strings.Contains(out, "bellows-agent goes on with the program of before: mend "+settings) {
		t.Errorf("the package's upgrade over wrong settings: %v\n%s", err, out)
	}
	if now := m.property("MainPID"); now != main || m.property("ActiveState") != "active" {
		t.Errorf("it restarted the agent: %s, was %s", now, main)
	}
	m.run("rm", settings)
	f.upgrade(m)
	f.awaitStep("steady", f.lastStep("steady")+10, 2)
	if s := f.mirror().Job(id).State.Value; s.Generation != 1 || s.Phase != cluster.Running {
		t.Errorf("the job noticed: %+v", s)
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)

	m.write(settings, misspelt)
	_, _ = m.try("systemctl", "restart", "bellows-agent.service") // it fails
	m.awaitAgent("failed")
	if status := m.property("ExecMainStatus"); status != "2" {
		t.Errorf("with a misspelt key it ended with status %s", status)
	}
	errs := m.run("journalctl", "--no-pager", "-o", "cat", "-p", "err", "-u", "bellows-agent")
	if !strings.Contains(errs, `bellows: `+settings+`:2: unknown key "keep-locks"`) || strings.Contains(errs, `"level":"info"`) {
		t.Errorf("journalctl -p err:\n%s", errs)
	}
	m.run("rm", settings)
	m.run(install, "--binary", binary) // which starts what has failed
	m.awaitAgent("active")
	if all := m.run("journalctl", "--no-pager", "-o", "cat", "-p", "info", "-u", "bellows-agent"); !strings.Contains(all, `"message":"ready"`) || strings.Contains(all, "<6>") {
		t.Errorf("journalctl -p info:\n%s", all)
	}

	// A crash is no setting: it comes back, and leaves no core.
	limits := m.run("cat", "/proc/"+m.property("MainPID")+"/limits")
	if i := strings.Index(limits, "Max core file size"); i < 0 || strings.Fields(limits[i:])[4] != "0" {
		t.Errorf("limits:\n%s", limits)
	}
	main = m.property("MainPID")
	m.run("systemctl", "kill", "--kill-whom=main", "--signal=ABRT", "bellows-agent.service")
	f.eventually("the agent to be back after a crash", func() bool {
		now := m.property("MainPID")
		return now != main && now != "0" && m.property("ActiveState") == "active"
	})
	f.passes(m)
}

// passes has the unit meet what passes by itself.
func (f *fleet) passes(m *machine) {
	f.t.Helper()
	m.run("systemctl", "stop", "bellows-agent.service")
	taken, err := net.Listen("tcp", f.addr(1)+":7946")
	if err != nil {
		f.t.Fatal(err)
	}
	defer taken.Close()
	started := func() int64 { // microseconds
		f.t.Helper()
		at, err := strconv.ParseInt(m.property("ExecMainStartTimestampMonotonic"), 10, 64)
		if err != nil {
			f.t.Fatal(err)
		}
		return at
	}
	last := started()
	m.run("systemctl", "start", "--no-block", "bellows-agent.service")
	var starts []int64
	f.eventually("three starts", func() bool {
		if at := started(); at != 0 && at != last {
			starts, last = append(starts, at), at
		}
		return len(starts) >= 3
	})
	if state := m.property("ActiveState"); state == "failed" || state == "inactive" {
		f.t.Errorf("with its port taken the unit is %s", state)
	}
	for i, at := range starts[1:] {
		if pause := time.Duration(at-starts[i]) * time.Microsecond; pause < 2*time.Second {
			f.t.Errorf("it was tried again after %s", pause)
		}
	}
	_ = taken.Close()
	m.awaitAgent("active")

	// As after a boot without a clock: a certificate that is not valid yet.
	early := f.issueAt("early", "n1", time.Now().Add(2*time.Hour), time.Hour)
	right := f.issueAt("right", "n1", time.Now(), time.Hour)
	m.run("cp", "-r", early, "/etc/bellows/tls")
	m.run("sed", "-i", "s,$, --tls-dir /etc/bellows/tls,", "/etc/bellows/agent.env")
	_, _ = m.try("systemctl", "restart", "--no-block", "bellows-agent.service")
	f.eventually("it to say that the clock is wrong", func() bool {
		return strings.Contains(m.run("journalctl", "--no-pager", "-o", "cat", "-p", "err", "-u", "bellows-agent"), "correct the clock that is wrong")
	})
	m.run("sh", "-c", fmt.Sprintf("cp %s/* /etc/bellows/tls/", right))
	m.awaitAgent("active")
	if warned := m.run("journalctl", "--no-pager", "-o", "cat", "-p", "warning", "-u", "bellows-agent"); !strings.Contains(warned, "the certificate of this node ends soon") {
		f.t.Errorf("the log does not say that it ends in an hour:\n%s", warned)
	}
}
