package shim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Where cgroup v2 has the controller of memory, each launcher is bounded by its own group, and workers are in
// none of these. This machine may have that controller elsewhere, so the files are only played.
func TestALaunchersBoundInCgroupV2(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": ""})
	run := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": ""})
	c := &containment{kind: Cgroup2, path: run, group: cgroup(run), own: own}
	order := Order{Prepare: &Prepare{Memory: 300 << 20}}
	order.Limits.MemoryBytes = 200 << 20
	c.boundAhead("run", order)
	b := &c.ahead
	if b.why != nil || b.bytes != 200<<20 || len(b.groups) > 0 || c.home != filepath.Join(run, "workers") {
		t.Fatalf("bound %+v, workers in %q", b, c.home)
	}
	for _, dir := range []string{own, run} {
		if on := (&fixture{t: t, root: dir}).read("cgroup.subtree_control"); on != "+memory" {
			t.Errorf("%s: turned on %q", dir, on)
		}
	}

	leaf := fakeCgroup(t, filepath.Join(run, aheadGroup+"0"), map[string]string{"memory.max": "", "memory.oom.group": "", "memory.swap.max": ""})
	if release, err := b.enter(leaf, &syscall.SysProcAttr{}); err != nil {
		t.Fatal(err)
	} else {
		release()
	}
	f := &fixture{t: t, root: leaf}
	if f.read("memory.max") != "209715200" || f.read("memory.oom.group") != "1" || f.read("memory.swap.max") != "0" {
		t.Errorf("limits %q, %q, %q", f.read("memory.max"), f.read("memory.oom.group"), f.read("memory.swap.max"))
	}
	for text, want := range map[string]bool{
		"max 0\noom 0\noom_kill 0\n": false,
		"max 9\noom 0\noom_kill 1\n": false, // the whole machine had no more
		"max 9\noom 1\noom_kill 2\n": true,
	} {
		fakeCgroup(t, leaf, map[string]string{"memory.events": text})
		if b.reached() != want {
			t.Errorf("%q: reached %v", text, !want)
		}
	}
	bare := fakeCgroup(t, filepath.Join(run, aheadGroup+"1"), nil)
	if err := os.MkdirAll(bare, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := b.enter(bare, &syscall.SysProcAttr{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "memory.max") {
		t.Errorf("in a group without the controller: %v", err)
	}

	// A worker that was forked goes where the bound is not: to all workers, or to where its own limits are.
	fakeCgroup(t, c.home, map[string]string{"cgroup.procs": ""})
	worker := fakeCgroup(t, filepath.Join(run, "worker-0"), map[string]string{"cgroup.procs": ""})
	for _, to := range []string{c.home, worker} {
		if to == worker {
			c.limits = &limits{workers: []bound{{born: worker}}}
		}
		if err := c.place(123, 0); err != nil {
			t.Error(err)
		}
		if pid := (&fixture{t: t, root: to}).read("cgroup.procs"); pid != "123" {
			t.Errorf("%s has %q", to, pid)
		}
	}
}

// A launcher's processes and processors are bounded there as well; the run's bound of processes is what its plan makes wider.
func TestALaunchersProcessesInCgroupV2(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu pids\n", "cgroup.subtree_control": ""})
	run := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": "", "pids.max": ""})
	c := &containment{kind: Cgroup2, path: run, group: cgroup(run), own: own}
	order := Order{Prepare: &Prepare{}, Processes: 30}
	order.Limits.CPUs = 2
	c.boundAhead("run", order)
	leaf := fakeCgroup(t, filepath.Join(run, aheadGroup+"0"), map[string]string{"cpu.max": ""})
	release, err := c.ahead.enter(leaf, &syscall.SysProcAttr{})
	if err != nil || c.ahead.why != nil {
		t.Fatal(err, c.ahead.why)
	}
	release()
	if pids, cpus := (&fixture{t: t, root: run}).read("pids.max"), (&fixture{t: t, root: leaf}).read("cpu.max"); pids != "30" || cpus != "200000 100000" {
		t.Errorf("bounds %q, %q", pids, cpus)
	}
	if c.home != filepath.Join(run, "workers") {
		t.Errorf("workers in %q", c.home)
	}
}

// What cannot be bounded by the kernel, for the controller is there and may not be had, is started all the same.
func TestALauncherWithoutTheKernelsBound(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "memory\n"})
	c := &containment{kind: Cgroup2, path: filepath.Join(own, "run"), own: own}
	c.boundAhead("run", Order{Prepare: &Prepare{Memory: 1 << 20}})
	if c.ahead.why == nil || c.ahead.bytes != 0 || c.home != "" {
		t.Errorf("bound %+v, workers in %q", c.ahead, c.home)
	}
	if release, err := c.ahead.enter("", &syscall.SysProcAttr{}); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

// What the kernel does not count as a launcher's, such as a file that others have read, is counted by a look at it.
func TestALaunchersMemoryIsLookedAt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("print('ran')\n")
	big, err := os.Create(filepath.Join(f.order.Workdir, "big"))
	for block, n := make([]byte, 1<<20), 0; n < 80 && err == nil; n++ {
		_, err = big.Write(block)
	}
	if err = errors.Join(err, big.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(f.order.Workdir, "maps.py"), `
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
fd = os.open("big", os.O_RDONLY)
PROT_READ, MAP_SHARED, MAP_POPULATE = 1, 1, 0x8000
assert libc.mmap(None, 80 << 20, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) != ctypes.c_void_p(-1).value
time.sleep(1000)
`, 0o644)
	plan := f.prepared()
	f.order.Prepare.Modules, f.order.Prepare.Memory = []string{"maps"}, 64<<20
	plan.Prepare = f.order.Prepare
	if p := f.startPrepared().Prepared; p.Ready || !strings.Contains(p.Cold, "MiB of memory, and may have 64") {
		t.Fatalf("prepared %+v", p)
	}
	f.startCold(plan, "may have 64")
	if log := f.ended(0); log != "ran\n" {
		t.Errorf("log:\n%s", log)
	}
}

// The kernel allows no process in a group whose children have a controller: launchers and workers are in groups
// beside each other. Any controller of the real cgroup v2 shows that.
func TestLaunchersAndWorkersShareACgroup(t *testing.T) {
	t.Parallel()
	needsKind(t, Cgroup2)
	c, err := newGroup("bellows-divided-"+itoa(os.Getpid())+"-"+itoa(int(testGroups.Add(1))), Cgroup2)
	if err != nil {
		t.Fatal(err)
	}
	inside := cgroup(c.path)
	t.Cleanup(func() {
		_ = inside.kill()
		eventually(t, "an empty group", func() bool { return inside.remove() == nil })
	})
	b, err := os.ReadFile(filepath.Join(c.own, "cgroup.controllers"))
	if err != nil || len(strings.Fields(string(b))) == 0 {
		t.Skipf("cgroup v2 has no controller to give away here, so there is nothing to test: %q, %v", b, err)
	}
	controller := strings.Fields(string(b))[0]
	if err = turnOn(c.own, controller); err != nil {
		t.Skipf("the tests' own cgroup cannot give %s away: %v", controller, err)
	}
	if err = c.divide(controller, false); err != nil {
		t.Fatal(err)
	}
	sleeps := func(enter func(*syscall.SysProcAttr) (func(), error)) int {
		t.Helper()
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		release, errEnter := enter(cmd.SysProcAttr)
		if errEnter != nil {
			t.Fatal(errEnter)
		}
		defer release()
		if errStart := cmd.Start(); errStart != nil {
			t.Fatal(errStart)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	launcher := sleeps(func(attr *syscall.SysProcAttr) (func(), error) { return c.holdAhead(attr, 0) })
	leaf := filepath.Join(c.path, aheadGroup+"0")
	executed := sleeps(c.enter)
	if in := members(leaf); !slices.Equal(in, []int{launcher}) {
		t.Errorf("with the launcher are %v, want %d", in, launcher)
	}
	if err = c.place(launcher, 0); err != nil { // as if it had been forked there
		t.Error(err)
	}
	want := []int{launcher, executed}
	slices.Sort(want)
	if in := members(c.home); !slices.Equal(in, want) || len(members(leaf)) > 0 {
		t.Errorf("workers are %v, want %v; in the launcher's group are %v", in, want, members(leaf))
	}
	if err = set(c.path, "cgroup.procs", itoa(executed)); !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("the kernel lets a process into the run's own group: %v", err)
	}
}
