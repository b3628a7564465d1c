package shim

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/cluster"
)

// ownedBy makes the fixture's run that of an ordinary user.
func (f *fixture) ownedBy(uid uint32, name string) *fixture {
	f.t.Helper()
	f.giveTo(uid, uid)
	f.order.Owner = cluster.Owner{UID: uid, GID: uid, User: name}
	return f
}

// A sysctl looks at who a process is, and not at its rights on files: one that has
// only put its file system identity aside is root to it.
func TestNoSysctlIsWrittenForAUser(t *testing.T) {
	agenttest.NeedsRoot(t)
	const sysctl, before = "/proc/sys/kernel/hostname", "before"
	// A namespace of names of its own, for this thread and what it starts.
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		t.Skipf("the machine's own name is not risked for a test, and another namespace cannot be had: %v", err)
	}
	if err := unix.Sethostname([]byte(before)); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, 1, "exit 0").ownedBy(1, "daemon")
	if err := os.MkdirAll(f.order.Checkpoint, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{f.order.Checkpoint, filepath.Dir(f.order.Checkpoint)} {
		if err := os.Chown(dir, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(sysctl, filepath.Join(f.order.Checkpoint, precheck.MeetingFile+".tmp")); err != nil {
		t.Fatal(err)
	}
	r := f.start().stopped()
	b, err := os.ReadFile(sysctl)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(b)); got != before {
		t.Errorf("an ordinary user's job has written to %s: %q", sysctl, got)
	}
	if !r.Stopped.Finished { // the link is removed, and what it led to is left alone
		t.Errorf("failed %+v", r.Failed)
	}
	f.retire()
}
