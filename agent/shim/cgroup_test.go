package shim

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCgroupMounts(t *testing.T) {
	for line, want := range map[string]string{
		`41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`:     "/sys/fs/cgroup/unified/user/me",
		`30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate`:  "/sys/fs/cgroup/user/me",
		`30 23 0:26 /user /mnt/with\040space rw - cgroup2 none rw`:                 "/mnt/with space/me",
		`30 23 0:26 /user/me /sys/fs/cgroup rw - cgroup2 cgroup2 rw`:               "/sys/fs/cgroup",
		`30 23 0:26 /elsewhere /sys/fs/cgroup rw - cgroup2 cgroup2 rw`:             "",
		`35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`: "",
		`22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw`:                   "",
		`30 23 0:26 / /sys/fs/cgroup rw`:                                           "",
	} {
		got, ok := mountedAt(line, "/user/me")
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", line, got, ok)
		}
	}
}

func TestCgroupsThatProcessesHaveDivided(t *testing.T) {
	g, err := newCgroup("bellows-test-" + itoa(os.Getpid()))
	if err != nil {
		t.Skipf("no cgroup v2 of one's own here: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(string(g), "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if populated, err := g.populated(); populated || err != nil || len(g.pids()) > 0 {
		t.Errorf("populated %v, %v, %v", populated, err, g.pids())
	}
	if err := g.remove(); err != nil {
		t.Fatal(err)
	}
	// What is gone is empty, and can be killed and removed again.
	populated, errP := g.populated()
	if populated || errP != nil || g.kill() != nil || g.remove() != nil {
		t.Errorf("gone: populated %v, %v", populated, errP)
	}
}

func TestAlive(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !Alive(self) {
		t.Error("this process is not alive")
	}
	for _, p := range []Process{
		{},
		{PID: self.PID, StartTime: self.StartTime + 1, BootID: self.BootID}, // reused
		{PID: self.PID, StartTime: self.StartTime, BootID: "another boot"},
		{PID: 1 << 30, StartTime: self.StartTime, BootID: self.BootID},
	} {
		if Alive(p) {
			t.Errorf("%+v is alive", p)
		}
	}
}
