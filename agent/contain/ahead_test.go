package contain

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
)

// Where cgroup v2 has the memory controller, each process that runs ahead is bounded by a group of its own. Workers are in
// none of these groups. A machine may have that controller in v1, so the test writes the files of a v2 hierarchy itself.
func TestTheBoundInCgroupV2(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": ""})
	group := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": ""})
	c := &Containment{Kind: run.Cgroup2, Path: group, base: group, group: cgroup(group), own: own}
	c.BoundAhead(Ahead{Memory: 200 << 20})
	if c.AheadUnbound != nil || len(c.ahead.v1) > 0 || c.workersIn != filepath.Join(group, "workers") {
		t.Fatalf("bound %+v, %v, workers in %q", c.ahead, c.AheadUnbound, c.workersIn)
	}
	for _, dir := range []string{own, group} {
		if on := readFile(t, dir, "cgroup.subtree_control"); on != "+memory" {
			t.Errorf("%s: turned on %q", dir, on)
		}
	}

	leaf := fakeCgroup(t, filepath.Join(group, aheadGroup+"-0"), map[string]string{"memory.max": "", "memory.oom.group": "", "memory.swap.max": ""})
	if err := c.ahead.inForce(leaf); err != nil {
		t.Fatal(err)
	}
	if most, whole, swap := readFile(t, leaf, "memory.max"), readFile(t, leaf, "memory.oom.group"), readFile(t, leaf, "memory.swap.max"); most != "209715200" || whole != "1" || swap != "0" {
		t.Errorf("limits %q, %q, %q", most, whole, swap)
	}
	for text, want := range map[string]bool{
		"max 0\noom 0\noom_kill 0\n": false,
		"max 9\noom 0\noom_kill 1\n": false, // the whole machine had no more
		"max 9\noom 1\noom_kill 2\n": true,
	} {
		fakeCgroup(t, leaf, map[string]string{"memory.events": text})
		if most, starved := c.AheadStarved(); starved != want || most != 200<<20 {
			t.Errorf("%q: starved %v of %d bytes", text, starved, most)
		}
	}
	bare := fakeCgroup(t, filepath.Join(group, aheadGroup+"-1"), nil)
	if err := os.MkdirAll(bare, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.ahead.inForce(bare); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "memory.max") {
		t.Errorf("in a group without the controller: %v", err)
	}

	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	parked := cmd.Process.Pid
	// A worker that was parked goes where the bound is not: to all workers, or to where its own limits are.
	fakeCgroup(t, c.workersIn, map[string]string{"cgroup.procs": ""})
	worker := fakeCgroup(t, filepath.Join(group, "worker-0"), map[string]string{"cgroup.procs": ""})
	for _, to := range []string{c.workersIn, worker} {
		if to == worker {
			c.rooms = []room{{v2: worker}}
		}
		if err := c.Place(parked, 0); err != nil {
			t.Error(err)
		}
		if pid := readFile(t, to, "cgroup.procs"); pid != strconv.Itoa(parked) {
			t.Errorf("%s has %q", to, pid)
		}
	}
}

// The processes and processors of what runs ahead are bounded there as well; the run's bound of processes is what its plan makes wider.
func TestTheBoundOfProcessesInCgroupV2(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu pids\n", "cgroup.subtree_control": ""})
	group := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": "", "pids.max": ""})
	c := &Containment{Kind: run.Cgroup2, Path: group, base: group, group: cgroup(group), own: own}
	c.BoundAhead(Ahead{Processes: 30, CPUs: 2})
	leaf := fakeCgroup(t, filepath.Join(group, aheadGroup+"-0"), map[string]string{"cpu.max": ""})
	if err := errors.Join(c.ahead.inForce(leaf), c.AheadUnbound); err != nil {
		t.Fatal(err)
	}
	if pids, cpus := readFile(t, group, "pids.max"), readFile(t, leaf, "cpu.max"); pids != "30" || cpus != "200000 100000" {
		t.Errorf("bounds %q, %q", pids, cpus)
	}
	if c.workersIn != filepath.Join(group, "workers") {
		t.Errorf("workers in %q", c.workersIn)
	}
}

// What runs ahead is started without a bound where the controller is there but may not be turned on.
func TestWhatRunsAheadWithoutTheKernelsBound(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "memory\n"})
	path := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.procs": ""})
	c := &Containment{Kind: run.Cgroup2, Path: path, base: path, own: own}
	c.BoundAhead(Ahead{Memory: 1 << 20})
	if most, _ := c.AheadStarved(); c.AheadUnbound == nil || most != 0 || c.workersIn != "" {
		t.Errorf("bound %+v, %v, workers in %q", c.ahead, c.AheadUnbound, c.workersIn)
	}
	if s, err := c.seatAhead(0); err != nil || s.v2 != filepath.Join(path, "ahead-0") || len(s.v1) > 0 {
		t.Errorf("its seat is %+v, %v", s, err)
	}
}

// The kernel allows no process in a group whose children have a controller: what runs ahead and workers are in groups
// beside each other. Any controller of the real cgroup v2 shows that.
func TestParkedAndWorkersShareACgroup(t *testing.T) {
	t.Parallel()
	needsKind(t, run.Cgroup2)
	c, err := New(Config{Name: testName("divided"), Kind: run.Cgroup2})
	if err != nil {
		t.Fatal(err)
	}
	inside := cgroup(c.Path)
	t.Cleanup(func() {
		_ = inside.Kill()
		agenttest.Eventually(t, "an empty group", func() bool { return inside.Remove() == nil })
	})
	b, err := os.ReadFile(filepath.Join(c.own, "cgroup.controllers"))
	if err != nil || len(strings.Fields(string(b))) == 0 {
		t.Skipf("cgroup v2 has no controller to give away here, so there is nothing to test: %q, %v", b, err)
	}
	controller := strings.Fields(string(b))[0]
	if err = turnOn(c.own, controller); err != nil {
		t.Skipf("the tests' own cgroup cannot give %s away: %v", controller, err)
	}
	given := false
	if err = c.ruleAhead(rule{controller: controller, v2: func(string) error { given = true; return nil }}); err != nil {
		t.Fatal(err)
	}
	sleeps := func(execute func(*syscall.ProcAttr) (int, error)) int {
		t.Helper()
		pid, errStart := execute(&syscall.ProcAttr{Sys: &syscall.SysProcAttr{}})
		if errStart != nil {
			t.Fatal(errStart)
		}
		t.Cleanup(func() {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
		})
		return pid
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"sleep", "1000"}
	waits := sleeps(func(attr *syscall.ProcAttr) (int, error) { return c.ExecuteAhead(0, sleep, argv, attr) })
	leaf := filepath.Join(c.Path, aheadGroup+"-0")
	executed := sleeps(func(attr *syscall.ProcAttr) (int, error) { return c.Execute(0, sleep, argv, attr) })
	if in := Members(leaf); !slices.Equal(in, []int{waits}) || !given {
		t.Errorf("beside what is parked are %v, want %d; its rule was given: %t", in, waits, given)
	}
	if err = c.Place(waits, 0); err != nil { // as at its release
		t.Error(err)
	}
	want := []int{waits, executed}
	slices.Sort(want)
	if in := Members(c.workersIn); !slices.Equal(in, want) || len(Members(leaf)) > 0 {
		t.Errorf("workers are %v, want %v; in that of what is parked are %v", in, want, Members(leaf))
	}
	if err = set(c.Path, "cgroup.procs", strconv.Itoa(executed)); !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("the kernel lets a process into the run's own group: %v", err)
	}
}
