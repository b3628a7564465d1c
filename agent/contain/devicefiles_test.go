package contain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// A cgroup with a list of what is allowed, as a container has, may have none taken off it.
func TestAnAllowListIsNotTakenForRules(t *testing.T) {
	d := run.DeviceFiles{Major: 195, Last: 253, Granted: []uint32{1}}
	for list, ok := range map[string]bool{
		"a *:* rwm\n":                            true,
		"c 1:3 rwm\nc 195:1 rw\nc 195:255 rwm\n": true,
		"b *:* m\nc 1:3 rwm\n":                   true,
		"c 1:3 rwm\nc 195:* rwm\n":               false,
		"c *:* m\n":                              false,
		"c 1:3 rwm\nc 195:0 rw\n":                false,
		"a 195:* rwm\n":                          false,
	} {
		dir := t.TempDir()
		agenttest.Write(t, filepath.Join(dir, "devices.list"), list, 0o600)
		if err := denied(dir, d); (err == nil) != ok {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestTryDevicesLeavesNothing(t *testing.T) {
	agenttest.NeedsRoot(t)
	for _, kind := range []string{run.Cgroup2, run.Cgroup1, run.Weak} {
		if how := TryDevices(kind); how != record.DeviceFilter && how != record.DeviceController {
			t.Logf("%s: %s", kind, how)
		}
	}
	for _, root := range []string{"/sys/fs/cgroup"} {
		found, err := exec.Command("find", root, "-name", "bellows-try-"+strconv.Itoa(os.Getpid())+"-*").Output()
		if err != nil || len(found) > 0 {
			t.Errorf("left: %s, %v", found, err)
		}
	}
}

// Where a v2 group serves no other purpose, its filter holds all the same.
func TestADeviceFilterOfItsOwn(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	needsKind(t, run.Cgroup2)
	files := t.TempDir()
	for name, number := range map[string][2]uint32{"nvidia0": {195, 0}, "nvidia1": {195, 1}, "full": {1, 7}} {
		path := filepath.Join(files, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(number[0], number[1]))); err != nil {
			t.Skipf("device files can only be told apart where they can be made: %v", err)
		}
		file, err := os.Open(path)
		if err == nil {
			_ = file.Close()
		} else if !strings.Contains(err.Error(), "no such device") {
			t.Skipf("device files can only be told apart where root may open them: %v", err)
		}
	}
	c, err := New(Config{Name: testName("filter"), Kind: run.Weak})
	if err != nil {
		t.Fatal(err)
	}
	top, err := c.top(hierarchy{fstype: "cgroup2"})
	if err == nil {
		err = filterDevices(top, run.DeviceFiles{Major: 195, Last: 253, Granted: []uint32{1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"nvidia0": "not permitted", "nvidia1": "No such device", "full": ""} {
		cmd := exec.Command("/usr/bin/head", "-c1", filepath.Join(files, name))
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		release, err := cgroup(top).enter(cmd.SysProcAttr)
		if err != nil {
			t.Fatal(err)
		}
		var words strings.Builder
		cmd.Stderr = &words
		_ = cmd.Run()
		release()
		if got := words.String(); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	agenttest.Eventually(t, "the group can be removed", func() bool { return c.Remove() == nil })
}
