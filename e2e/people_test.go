package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// ordinary is Debian's user without rights, stranger one that has not even a name.
const (
	ordinary     = 65534
	ordinaryName = "nobody"
	stranger     = 54321
)

// needRoot skips a test that acts as several users: only root can.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this test acts as other users, mounts, or both: run it as root")
	}
}

// as runs a command as another user.
func (u *people) as(uid uint32, args ...string) *session {
	u.t.Helper()
	cmd := u.command(1, args...)
	cmd.Dir = u.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return startSession(u.t, cmd)
}

// owned makes a folder of another user's.
func (p *place) owned(name string, uid int) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // others may look
		p.t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// Jobs belong to their submitters; what others ask changes nothing.
func TestOnlyTheOwnerChangesAJob(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{devices: 2})
	wait := f.script("wait.sh", "trap 'exit 0' TERM\ncat "+f.nodeDir(1)+"/logs/*/*/* && echo logs are open\n"+
		"for f in "+f.nodeDir(1)+"/logs "+f.nodeDir(1)+"/logs/x; do echo x >> $f && echo logs can be written\ndone\necho looked\nwhile :; do sleep 0.1; done\n")
	if err := os.Chmod(wait, 0o755); err != nil { //nolint:gosec // it is to be run by all
		t.Fatal(err)
	}
	roots := f.submit(job{"name": "roots", "max": 1, "workdir": f.dir, "checkpoint-dir": filepath.Join(f.dir, "c"), "command": []string{wait}})
	mine := f.as(ordinary, "run", "-d", "--name", "mine", "--max", "1", "--checkpoint-dir", f.owned("mine", ordinary), "--", wait)
	if code := mine.wait(); code != 0 {
		t.Fatalf("run as the ordinary user exited %d: %s", code, mine.said())
	}
	ordinaryJob := cluster.JobID(strings.TrimSpace(mine.out.String()))
	f.awaitPhase(roots, cluster.Running)
	f.awaitPhase(ordinaryJob, cluster.Running)
	for _, w := range f.started(ordinaryJob) {
		if uid := userOf(t, w.PID); uid != ordinary {
			t.Errorf("worker %d of the ordinary user's job runs as user %d", w.PID, uid)
		}
	}

	var logs string
	f.eventually("the job to look at the logs", func() bool {
		logs, _, _ = f.bellows("logs", "mine")
		return strings.Contains(logs, "looked")
	})
	if strings.Contains(logs, "logs are open") || strings.Contains(logs, "logs can be written") {
		t.Errorf("a job gets at logs: %s", logs)
	}
	if s := f.as(stranger, "logs", "mine"); s.wait() != 1 || !strings.Contains(s.said(), "only its owner or root may read its logs") {
		t.Errorf("a stranger's logs: %s", s.said())
	}
	before := f.mirror().Revision
	for _, c := range []struct {
		uid  uint32
		job  cluster.JobID
		want string
	}{
		{ordinary, roots, "belongs to root: only its owner or root may stop it"},
		{stranger, roots, "belongs to root: only its owner or root may stop it"},
		{stranger, ordinaryJob, "belongs to " + ordinaryName + ": only its owner or root may stop it"},
	} {
		s := f.as(c.uid, "stop", string(c.job))
		if code := s.wait(); code != 1 || !strings.Contains(s.said(), "job "+string(c.job)+" "+c.want) {
			t.Errorf("stop %s as %d: exit %d, %s", c.job, c.uid, code, s.said())
		}
	}
	for _, keys := range f.writes(before, f.mirror().Revision) {
		t.Errorf("a refused stop wrote %v", keys)
	}
	for _, id := range []cluster.JobID{roots, ordinaryJob} {
		if s := f.mirror().Job(id); s.State.Value.Phase != cluster.Running || s.Wanted.Exists() && !s.Wanted.Value.Run {
			t.Errorf("job %s was touched: %+v", id, s.State.Value)
		}
	}

	if s := f.as(ordinary, "stop", "mine"); s.wait() != 0 {
		t.Errorf("its owner may stop it: %s", s.said())
	}
	f.awaitPhase(ordinaryJob, cluster.Stopped)
	f.nothingLeft(ordinaryJob)
	f.stop(roots)
	f.awaitPhase(roots, cluster.Stopped)
}

// userOf is the user that a process runs as.
func userOf(t *testing.T, pid int) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// An agent that is not root's runs jobs of its own user only, and says so.
func TestAgentOfAUserServesThatUserOnly(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{})
	home := f.owned("home", ordinary)
	cmd := f.command(1, "agent", "--node", "own", "--etcd", f.endpoint, "--bind", f.addr(9), "--socket", filepath.Join(home, "s"),
		"--data-dir", filepath.Join(home, "d"), "--lock-dir", filepath.Join(home, "l"), "--simulate-devices", "1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	agent := startSession(t, cmd)
	f.await("the user's agent", func(m *record.Mirror) bool { return m.Node("own").Alive.Exists() })
	_, errs, code := f.bellows("run", "--socket", filepath.Join(home, "s"), "--checkpoint-dir", filepath.Join(f.dir, "c"), "--", "true")
	want := "this agent runs as " + ordinaryName + " (uid 65534) and can only run that user's jobs; you are root (uid 0): ask an agent that runs as root, or your own"
	if code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit %d: %s\nwant %s", code, errs, want)
	}
	agent.signal(syscall.SIGTERM)
	if code := agent.wait(); code != 0 {
		t.Errorf("the agent ended with %d: %s", code, agent.said())
	}
}

// A submission without a leader is kept, its user is told, and it runs once there is one.
func TestNoLeaderQueuesTheJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	f.kill("coordinator-1")
	f.await("the dead leader's key to go", func(m *record.Mirror) bool { return len(m.Leaders) == 0 })
	run := startSession(t, f.command(1, "run", "--name", "early", "--max", "1", "--checkpoint-dir", filepath.Join(f.dir, "c"),
		"--", "sh", "-c", "echo at last"))
	run.await("accepted, queued: no coordinator leads")
	out, errs, code := f.bellows("ps")
	if code != 0 || !strings.Contains(out, "early") || !strings.Contains(out, "no coordinator leads") {
		t.Errorf("ps exited %d and does not say why it waits:\n%s%s", code, out, errs)
	}
	f.startCoordinator(2)
	if code := run.wait(); code != 0 || !strings.Contains(run.out.String(), "at last") {
		t.Errorf("run exited %d: %s", code, run.said())
	}
}
