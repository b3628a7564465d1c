package contain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

func TestCgroupMounts(t *testing.T) {
	v2, v1 := hierarchy{fstype: "cgroup2"}, hierarchy{"cgroup", "freezer"}
	for _, c := range []struct {
		h    hierarchy
		line string
		want string
	}{
		{v2, `41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`, "/sys/fs/cgroup/unified/user/me"},
		{v2, `30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate`, "/sys/fs/cgroup/user/me"},
		{v2, `30 23 0:26 /user /mnt/with\040space rw - cgroup2 none rw`, "/mnt/with space/me"},
		{v2, `30 23 0:26 /user/me /sys/fs/cgroup rw - cgroup2 cgroup2 rw`, "/sys/fs/cgroup"},
		{v2, `30 23 0:26 /elsewhere /sys/fs/cgroup rw - cgroup2 cgroup2 rw`, ""},
		{v2, `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`, ""},
		{v2, `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw`, ""},
		{v2, `30 23 0:26 / /sys/fs/cgroup rw`, ""},
		{v1, `36 31 0:33 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer`, "/sys/fs/cgroup/freezer/user/me"},
		{v1, `36 31 0:33 /user /sys/fs/cgroup/pids,freezer rw - cgroup cgroup rw,pids,freezer`, "/sys/fs/cgroup/pids,freezer/me"},
		{v1, `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`, ""},
		{v1, `41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`, ""},
	} {
		mount, _ := proc.ReadMount(c.line)
		got, ok := c.h.mountedAt(mount, "/user/me")
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s in %s: %q, %v", c.h, c.line, got, ok)
		}
	}
}

func TestOwnCgroups(t *testing.T) {
	v2, v1 := hierarchy{fstype: "cgroup2"}, hierarchy{"cgroup", "freezer"}
	for _, c := range []struct {
		h    hierarchy
		line string
		want string
	}{
		{v2, "0::/user/me", "/user/me"},
		{v2, "6:freezer:/user/me", ""},
		{v2, "9:name=systemd:/", ""},
		{v1, "6:freezer:/user/me", "/user/me"},
		{v1, "6:pids,freezer:/a:b", "/a:b"},
		{v1, "0::/user/me", ""},
		{v1, "nonsense", ""},
	} {
		if got, ok := c.h.path(c.line); got != c.want || ok != (c.want != "") {
			t.Errorf("%s in %s: %q, %v", c.h, c.line, got, ok)
		}
	}
}

// kinds are the containments with a group; both are to do the same.
func kinds() []string { return []string{run.Cgroup2, run.Cgroup1} }

// needsKind is for tests that need a kernel, mounts and rights that cannot be had everywhere.
func needsKind(t *testing.T, kind string) Group {
	t.Helper()
	name := testName("test")
	var g Group
	var err error
	if kind == run.Cgroup2 {
		g, err = newCgroup(name)
	} else {
		g, err = newFreezer(name)
	}
	if err != nil {
		t.Skipf("this machine has no %s for this user, so there is nothing to test: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

var testGroups atomic.Int32

// testName is a name that no other group has.
func testName(what string) string {
	return "bellows-" + what + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(testGroups.Add(1)))
}

func TestCgroupsThatProcessesHaveDivided(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			g := needsKind(t, kind)
			dir := fmt.Sprint(g)
			if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
				t.Fatal(err)
			}
			if pids, populated, err := g.Look(); populated || err != nil || len(pids) > 0 {
				t.Errorf("populated %v, %v, %v", populated, err, pids)
			}
			if err := g.Remove(); err != nil {
				t.Fatal(err)
			}
			// What is gone is empty, and can be killed and removed again.
			_, populated, errP := g.Look()
			if errK, errR := g.Kill(), g.Remove(); populated || errP != nil || errK != nil || errR != nil {
				t.Errorf("gone: populated %v, %v, %v, %v", populated, errP, errK, errR)
			}
		})
	}
}

// Each group is seen, at whatever depth, as soon as it is there; a group's files are none.
func TestEachGroupIsSeen(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			top := fmt.Sprint(needsKind(t, kind))
			want := []string{top}
			for _, name := range []string{"", "a", "a/b", "a/b/c", "b", "b/a"} {
				if name != "" {
					want = append(want, filepath.Join(top, name))
					if err := os.Mkdir(want[len(want)-1], 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if got := below(top); !slices.Equal(got, want) {
					t.Errorf("seen: %q, want %q", got, want)
				}
			}
			for len(want) > 1 {
				if err := os.Remove(want[len(want)-1]); err != nil {
					t.Fatal(err)
				}
				want = want[:len(want)-1]
				if got := below(top); !slices.Equal(got, want) {
					t.Errorf("seen: %q, want %q", got, want)
				}
			}
			for _, none := range []string{"cgroup.procs", "gone"} {
				if got := below(filepath.Join(top, none)); got != nil {
					t.Errorf("%s: %q", none, got)
				}
			}
		})
	}
}
