package shim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/sdk"
)

// Where cgroup v2 has the controller of memory, each process that runs ahead is bounded by its own group, and workers are in
// none of these. This machine may have that controller elsewhere, so the files are only played.
func TestTheBoundInCgroupV2(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": ""})
	group := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": ""})
	c := &containment{kind: Cgroup2, path: group, group: cgroup(group), own: own}
	order := run.Order{Prepare: &run.Prepare{Memory: 300 << 20}}
	order.Limits.MemoryBytes = 200 << 20
	c.boundAhead("run", order)
	b := &c.ahead
	if b.why != nil || b.bytes != 200<<20 || len(b.groups) > 0 || c.home != filepath.Join(group, "workers") {
		t.Fatalf("bound %+v, workers in %q", b, c.home)
	}
	for _, dir := range []string{own, group} {
		if on := (&fixture{t: t, root: dir}).read("cgroup.subtree_control"); on != "+memory" {
			t.Errorf("%s: turned on %q", dir, on)
		}
	}

	leaf := fakeCgroup(t, filepath.Join(group, aheadGroup+"0"), map[string]string{"memory.max": "", "memory.oom.group": "", "memory.swap.max": ""})
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
	bare := fakeCgroup(t, filepath.Join(group, aheadGroup+"1"), nil)
	if err := os.MkdirAll(bare, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := b.enter(bare, &syscall.SysProcAttr{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "memory.max") {
		t.Errorf("in a group without the controller: %v", err)
	}

	// A worker that was parked goes where the bound is not: to all workers, or to where its own limits are.
	fakeCgroup(t, c.home, map[string]string{"cgroup.procs": ""})
	worker := fakeCgroup(t, filepath.Join(group, "worker-0"), map[string]string{"cgroup.procs": ""})
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

// The processes and processors of what runs ahead are bounded there as well; the run's bound of processes is what its plan makes wider.
func TestTheBoundOfProcessesInCgroupV2(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu pids\n", "cgroup.subtree_control": ""})
	group := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": "", "pids.max": ""})
	c := &containment{kind: Cgroup2, path: group, group: cgroup(group), own: own}
	order := run.Order{Prepare: &run.Prepare{}, Processes: 30}
	order.Limits.CPUs = 2
	c.boundAhead("run", order)
	leaf := fakeCgroup(t, filepath.Join(group, aheadGroup+"0"), map[string]string{"cpu.max": ""})
	release, err := c.ahead.enter(leaf, &syscall.SysProcAttr{})
	if err != nil || c.ahead.why != nil {
		t.Fatal(err, c.ahead.why)
	}
	release()
	if pids, cpus := (&fixture{t: t, root: group}).read("pids.max"), (&fixture{t: t, root: leaf}).read("cpu.max"); pids != "30" || cpus != "200000 100000" {
		t.Errorf("bounds %q, %q", pids, cpus)
	}
	if c.home != filepath.Join(group, "workers") {
		t.Errorf("workers in %q", c.home)
	}
}

// What cannot be bounded by the kernel, for the controller is there and may not be had, is started all the same.
func TestWhatRunsAheadWithoutTheKernelsBound(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "memory\n"})
	c := &containment{kind: Cgroup2, path: filepath.Join(own, "run"), own: own}
	c.boundAhead("run", run.Order{Prepare: &run.Prepare{Memory: 1 << 20}})
	if c.ahead.why == nil || c.ahead.bytes != 0 || c.home != "" {
		t.Errorf("bound %+v, workers in %q", c.ahead, c.home)
	}
	if release, err := c.ahead.enter("", &syscall.SysProcAttr{}); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

// Where the kernel keeps no bound, as for an agent that no root has started, the memory of all that is parked is looked at.
func TestMemoryOfWhatRunsAheadIsLookedAt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript("import os\nBIG = b'x' * (50 << 20)\nprint('rank', os.environ['RANK'])\n")
	f.order.Command[0] = "/usr/bin/python3" // which any user may execute
	f.prepares(func(p *run.Prepare) { p.Workers, p.Memory = 2, 80<<20 })
	f.startUnprivileged()
	// Neither has 80 MiB alone. The second may still be growing when they are looked at.
	tooMuch := regexp.MustCompile(`2 parked processes have \d+ MiB of memory, and may have 80`)
	f.await("too much", func(r run.Report) bool { return r.Prepared != nil && tooMuch.MatchString(r.Prepared.Cold) })
	eventually(t, "nothing is parked", func() bool { return len(f.ahead()) == 0 })
	eventually(t, "the next ones import nothing early, and need less", func() bool {
		return slices.Contains(readLearned(f.order.LearnedFile).active(), sdk.EarlyLesson)
	})
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// The kernel allows no process in a group whose children have a controller: what runs ahead and workers are in groups
// beside each other. Any controller of the real cgroup v2 shows that.
func TestParkedAndWorkersShareACgroup(t *testing.T) {
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
	waits := sleeps(func(attr *syscall.SysProcAttr) (func(), error) { return c.holdAhead(attr, 0) })
	leaf := filepath.Join(c.path, aheadGroup+"0")
	executed := sleeps(c.enter)
	if in := members(leaf); !slices.Equal(in, []int{waits}) {
		t.Errorf("beside what is parked are %v, want %d", in, waits)
	}
	if err = c.place(waits, 0); err != nil { // as at its release
		t.Error(err)
	}
	want := []int{waits, executed}
	slices.Sort(want)
	if in := members(c.home); !slices.Equal(in, want) || len(members(leaf)) > 0 {
		t.Errorf("workers are %v, want %v; in that of what is parked are %v", in, want, members(leaf))
	}
	if err = set(c.path, "cgroup.procs", itoa(executed)); !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("the kernel lets a process into the run's own group: %v", err)
	}
}
