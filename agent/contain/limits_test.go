package contain

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// fakeCgroup is a directory that looks like a cgroup v2 whose files hold these texts.
func fakeCgroup(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		agenttest.Write(t, filepath.Join(dir, name), text, 0o644)
	}
	return dir
}

// In cgroup v2 the limits are children of the containment. This machine may have
// its controllers elsewhere, so the files are only played.
func TestLimitsInCgroupV2(t *testing.T) {
	t.Parallel()
	top := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": ""})
	if !offers(top, "memory") || !offers(top, "cpu") || offers(top, "mem") || offers(filepath.Join(top, "none"), "cpu") {
		t.Error("the controllers on offer are read wrongly")
	}
	for _, worker := range []string{"worker-0", "worker-1"} { // the kernel makes these files, a mkdir here does not
		fakeCgroup(t, filepath.Join(top, worker), map[string]string{"memory.max": "", "memory.oom.group": "", "cpu.max": ""})
	}
	fakeCgroup(t, top, map[string]string{"pids.max": ""})
	c := &Containment{Kind: run.Cgroup2, Path: top, base: top, own: top}
	member := cluster.Member{Node: "n1", Devices: []cluster.DeviceID{"a", "b"}}
	if err := c.Limit(cluster.Limits{MemoryBytes: 1 << 30, CPUs: 1.5}, 100, member); err != nil || c.Unbound != nil || c.Processes != 200 {
		t.Fatalf("%v; at most %d processes, %v", err, c.Processes, c.Unbound)
	}
	if most := readFile(t, top, "pids.max"); most != "200" {
		t.Errorf("at most %s processes", most)
	}
	if got := readFile(t, top, "cgroup.subtree_control"); got == "" {
		t.Error("no controller was turned on")
	}
	for local, worker := range []string{"worker-0", "worker-1"} {
		dir := filepath.Join(top, worker)
		if readFile(t, dir, "memory.max") != "1073741824" || readFile(t, dir, "memory.oom.group") != "1" || readFile(t, dir, "cpu.max") != "150000 100000" {
			t.Errorf("%s: %q, %q, %q", worker, readFile(t, dir, "memory.max"), readFile(t, dir, "memory.oom.group"), readFile(t, dir, "cpu.max"))
		}
		if s := c.seat(local); s.v2 != dir || s.v1 != nil {
			t.Errorf("%s is in %+v", worker, s)
		}
		fakeCgroup(t, dir, map[string]string{"memory.events": "low 0\nhigh 0\nmax 12\noom 0\noom_kill 1\noom_group_kill 1\n"})
		if _, yes := c.Starved(local); yes {
			t.Error("a kill for another cgroup's memory is taken for the limit's")
		}
		fakeCgroup(t, dir, map[string]string{"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 1\n"})
		if limit, yes := c.Starved(local); !yes || limit != 1<<30 {
			t.Errorf("a kill at the limit is not seen: %d, %v", limit, yes)
		}
	}
	if err := set(top, "memory.max.none", "1"); err == nil || !strings.Contains(err.Error(), "set memory.max.none to 1") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Each rule turns its controller on, for the children of the agent's own group and of the run's.
func TestARuleTurnsItsControllerOn(t *testing.T) {
	t.Parallel()
	for _, r := range rules(1<<30, 0.001) {
		own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.subtree_control": ""})
		group := fakeCgroup(t, filepath.Join(own, "run"), map[string]string{"cgroup.subtree_control": ""})
		worker := fakeCgroup(t, filepath.Join(group, "w"), map[string]string{"memory.max": "", "memory.oom.group": "", "cpu.max": ""})
		c := &Containment{Kind: run.Cgroup2, Path: group, base: group, own: own}
		if err := c.bound(&room{}, "w", r); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{own, group} {
			if on := readFile(t, dir, "cgroup.subtree_control"); on != "+"+r.controller {
				t.Errorf("%s: turned on %q", dir, on)
			}
		}
		if r.controller == "cpu" {
			if cpus := readFile(t, worker, "cpu.max"); cpus != "1000 100000" {
				t.Errorf("less than the kernel takes: %q", cpus)
			}
		}
	}
}

// A node that cannot keep a limit refuses, and says why.
func TestLimitsThatCannotBeKeptRefuse(t *testing.T) {
	t.Parallel()
	own := fakeCgroup(t, t.TempDir(), map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.subtree_control": ""})
	member := cluster.Member{Node: "n1", Devices: []cluster.DeviceID{"a"}}
	for name, c := range map[string]struct {
		c    *Containment
		want string
	}{
		"an impossible name":         {&Containment{Kind: run.Weak, name: "bellows/not/a/name"}, "limit the workers' processors: "},
		"cgroup v2 for other groups": {&Containment{Kind: run.Cgroup1, own: own}, "limit the workers' processors: it takes cgroup v2 here, and workers are held by cgroup1: set the agent's --containment to auto"},
	} {
		if err := c.c.Limit(cluster.Limits{CPUs: 1}, 0, member); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := (&Containment{name: "x"}).bound(&room{}, "w", rule{controller: "no-such-controller"})
	if err == nil || !strings.Contains(err.Error(), "offers no no-such-controller controller") {
		t.Errorf("a controller that there is not: %v", err)
	}
}

// The kernel gives a controller to children only where no process is beside them:
// a shim alone in its scope moves into a leaf, and one that is not alone says so.
// Any controller of the real cgroup v2 shows that.
func TestAShimMakesRoomForControllers(t *testing.T) {
	t.Parallel()
	needsKind(t, run.Cgroup2)
	parent, err := hierarchy{fstype: "cgroup2"}.own()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil || len(strings.Fields(string(b))) == 0 {
		t.Skipf("cgroup v2 has no controller to give away here, so there is nothing to test: %q, %v", b, err)
	}
	controller := strings.Fields(string(b))[0]
	if on, errRead := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control")); errRead == nil && !strings.Contains(string(on), controller) {
		t.Cleanup(func() { _ = set(parent, "cgroup.subtree_control", "-"+controller) }) // as it was, unless another cgroup uses it by now
	}
	if err = turnOn(parent, controller); err != nil {
		t.Skipf("the tests' own cgroup cannot give %s away: %v", controller, err)
	}
	scope, err := newCgroup(testName("scope"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = scope.Kill()
		agenttest.Eventually(t, "an empty scope", func() bool { return scope.Remove() == nil })
	})
	start := func(name string, args ...string) (*exec.Cmd, *strings.Builder) {
		t.Helper()
		cmd, errs := exec.Command(name, args...), &strings.Builder{}
		cmd.Stderr = errs
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		release, err := scope.enter(cmd.SysProcAttr)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd, errs
	}
	// As another process is there, it must not be left without its own.
	other, _ := start("sleep", "1000")
	crowded, errs := start(os.Args[0], "delegate", string(scope), controller)
	if err := crowded.Wait(); err == nil || !strings.Contains(errs.String(), "run the agent by its systemd unit") {
		t.Errorf("with another process beside: %v, %q", err, errs)
	}
	if err := (&Containment{own: string(scope)}).delegate(controller); err == nil || !strings.Contains(err.Error(), "holds processes besides") {
		t.Errorf("without a scope: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	alone, _ := start(os.Args[0], "delegate", string(scope), controller)
	agenttest.Eventually(t, "the controller below the scope", func() bool {
		b, err := os.ReadFile(filepath.Join(string(scope), "cgroup.subtree_control"))
		return err == nil && slices.Contains(strings.Fields(string(b)), controller)
	})
	if inside := Members(filepath.Join(string(scope), "shim")); !slices.Equal(inside, []int{alone.Process.Pid}) {
		t.Errorf("in the leaf are %v, want %d", inside, alone.Process.Pid)
	}
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The test binary is also a shim that makes room for a controller: see TestAShimMakesRoomForControllers.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "delegate" {
		if err := (&Containment{own: os.Args[2], movable: []int{os.Getpid()}}).delegate(os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}
