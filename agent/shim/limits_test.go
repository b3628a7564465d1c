package shim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// needsLimits is for tests that need the controllers, and the right to use them.
func needsLimits(t *testing.T) {
	t.Helper()
	c, err := newGroup("bellows-limits-"+itoa(os.Getpid())+"-"+itoa(int(testGroups.Add(1))), "")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, 1, "")
	f.order.Limits = cluster.Limits{MemoryBytes: 64 << 20, CPUs: 1}
	err = c.limit(filepath.Base(c.path)+"-l", f.order, f.order.World.Members[0])
	if e := c.remove(); e != nil {
		t.Error(e)
	}
	if err != nil {
		t.Skipf("this machine keeps no limits for this user, so there is nothing to test: %v", err)
	}
}

// eachCage runs a test in every containment, weak included: limits are apart from it.
func eachCage(t *testing.T, ranks int, script string, test func(f *fixture)) {
	needsLimits(t)
	for _, kind := range append(kinds(), Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != Weak {
				needsKind(t, kind)
			}
			f := newFixture(t, ranks, script)
			f.order.Containment = kind
			test(f)
		})
	}
}

// limitsLeft are groups of limits that a run has not taken away.
func (f *fixture) limitsLeft() []string {
	f.t.Helper()
	var rec runRecord
	if err := readJSON(filepath.Join(f.dir, shimFile), &rec); err != nil {
		f.t.Fatal(err)
	}
	var left []string
	for _, dir := range rec.Limits {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			left = append(left, dir)
		}
	}
	return left
}

// The kernel ends the worker that wants too much memory, a child of it
// included, and the report says that its limit did it.
func TestAWorkerThatWantsTooMuchMemoryIsKilled(t *testing.T) {
	t.Parallel()
	eachCage(t, 2, `echo up > up-$RANK
[ $RANK = 1 ] || exec sleep 1000
while [ ! -e up-0 ]; do sleep 0.01; done
echo the last words
exec dd if=/dev/zero of=/dev/null bs=200M count=1000`, func(f *fixture) {
		f.order.Limits.MemoryBytes = 64 << 20
		r := f.start().stopped()
		if r.Failed == nil || r.Failed.Kind != record.WorkerFailed || r.Failed.Rank != 1 || !r.Failed.OutOfMemory ||
			r.Failed.Reason != "killed: out of its memory limit of 64 MiB" || !strings.Contains(strings.Join(r.Failed.LogTail, "\n"), "the last words") {
			f.t.Errorf("failed %+v", r.Failed)
		}
		f.retire()
		if left := f.limitsLeft(); len(left) > 0 {
			f.t.Errorf("left are %v", left)
		}
	})
}

// Saving may take more memory than training did: what a halt has lost for that is told.
func TestASaveThatWantsTooMuchMemoryIsTold(t *testing.T) {
	t.Parallel()
	eachCage(t, 1, `trap 'exec dd if=/dev/zero of=/dev/null bs=200M count=1000' TERM; echo up > up-0; while :; do sleep 0.02; done`, func(f *fixture) {
		f.order.Limits.MemoryBytes = 64 << 20
		f.start()
		f.started()
		f.awaitFile("up-0")
		h := halt(true, time.Minute)
		h.Terminate = true
		f.push(run.Wish{Halt: h})
		if r := f.stopped(); r.Failed == nil || r.Failed.Reason != "killed: out of its memory limit of 64 MiB" || r.Failed.Rank != 0 {
			f.t.Errorf("failed %+v", r.Failed)
		}
		f.retire()
	})
}

// A script may survive the death of what it has started, and fail for that.
func TestAChildThatWantsTooMuchMemoryIsNamed(t *testing.T) {
	t.Parallel()
	eachCage(t, 1, `dd if=/dev/zero of=/dev/null bs=200M count=1000; exit 7`, func(f *fixture) {
		f.order.Limits.MemoryBytes = 64 << 20
		r := f.start().stopped()
		if r.Failed == nil || !strings.Contains(r.Failed.Reason, "killed: out of its memory limit of 64 MiB") {
			f.t.Errorf("failed %+v", r.Failed)
		}
		f.retire()
	})
}

// Within its limit a worker runs on; a kill by another process is reported as such.
func TestWithinItsLimitsAWorkerIsLetBe(t *testing.T) {
	t.Parallel()
	eachCage(t, 2, `dd if=/dev/zero of=/dev/null bs=4M count=10 2>/dev/null; echo up > up-$RANK; exec sleep 1000`, func(f *fixture) {
		f.order.Limits = cluster.Limits{MemoryBytes: 64 << 20, CPUs: 0.5}
		f.start()
		r := f.started()
		f.awaitFile("up-0")
		f.awaitFile("up-1")
		if err := unix.Kill(r.Workers[0].PID, unix.SIGKILL); err != nil {
			f.t.Fatal(err)
		}
		if r = f.stopped(); r.Failed == nil || r.Failed.Rank != 0 || strings.Contains(r.Failed.Reason, "limit") {
			f.t.Errorf("failed %+v", r.Failed)
		}
		f.retire()
	})
}

// A worker that computes more than it may is slowed down, each by itself.
func TestAWorkerThatComputesTooMuchIsSlowedDown(t *testing.T) {
	t.Parallel()
	eachCage(t, 2, `while :; do :; done`, func(f *fixture) {
		f.order.Limits.CPUs = 0.1
		f.start()
		f.started()
		var rec runRecord
		if err := readJSON(filepath.Join(f.dir, shimFile), &rec); err != nil {
			f.t.Fatal(err)
		}
		tops := rec.Limits
		if len(tops) == 0 {
			tops = []string{rec.Cgroup}
		}
		for _, worker := range []string{"worker-0", "worker-1"} {
			throttled := int64(0)
			for end := time.Now().Add(patience); throttled < 3 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				throttled = counted(filepath.Join(tops[0], worker), "cpu.stat", "nr_throttled")
			}
			if throttled < 3 {
				f.t.Errorf("%s was slowed down %d times", worker, throttled)
			}
		}
		f.push(run.Wish{Kill: "test"})
		f.stopped()
		f.retire()
		if left := f.limitsLeft(); len(left) > 0 {
			f.t.Errorf("left are %v", left)
		}
	})
}

// A process of others may be in a group of a run that ends. The shim removes the group once it can, and warns if it has to leave it.
func TestGroupsInUseAreRemovedLater(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"for a moment": false, "for long": true} {
		t.Run(name, func(t *testing.T) {
			eachCage(t, 1, `exec sleep 1000`, func(f *fixture) {
				f.order.Limits.MemoryBytes = 64 << 20
				f.start()
				f.started()
				leave := f.guest()
				f.push(run.Wish{Kill: "test"})
				f.stopped()
				if left := f.limitsLeft(); len(left) == 0 {
					f.t.Error("the group that the guest is in was removed")
				}
				if !stays {
					leave()
					eventually(f.t, "the group is removed", func() bool { return len(f.limitsLeft()) == 0 })
				}
				f.retire()
				log, err := os.ReadFile(filepath.Join(f.dir, logFile))
				if warned := strings.Contains(string(log), "remove cgroup"); err != nil || warned != stays {
					f.t.Errorf("the shim has warned of a group that it leaves: %v, %v", warned, err)
				}
				leave()
				for _, top := range f.limitsLeft() {
					if err := removeCgroup(top); err != nil {
						f.t.Error(err)
					}
				}
			})
		})
	}
}

// guest puts a process into the first group of the run's limits, until leave is called.
func (f *fixture) guest() (leave func()) {
	f.t.Helper()
	var rec runRecord
	if err := readJSON(filepath.Join(f.dir, shimFile), &rec); err != nil {
		f.t.Fatal(err)
	}
	if len(rec.Limits) == 0 {
		f.t.Skip("these limits are in the run's own group, in which everything ends with the run")
	}
	guest := exec.Command("sleep", "1000")
	if err := guest.Start(); err != nil {
		f.t.Fatal(err)
	}
	leave = sync.OnceFunc(func() { _ = guest.Process.Kill(); _ = guest.Wait() }) // by that signal
	f.t.Cleanup(leave)
	if err := os.WriteFile(filepath.Join(rec.Limits[0], "cgroup.procs"), []byte(itoa(guest.Process.Pid)), 0); err != nil {
		f.t.Fatal(err)
	}
	return leave
}

// When a shim is killed, a sweep takes the limits' groups away too.
func TestASweepTakesLimitsAway(t *testing.T) {
	t.Parallel()
	eachCage(t, 1, `exec sleep 1000`, func(f *fixture) {
		f.order.Limits = cluster.Limits{MemoryBytes: 64 << 20, CPUs: 2}
		f.repeats().start()
		f.started()
		f.killShim()
		if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
			f.t.Fatal(err)
		}
		if left := f.limitsLeft(); len(left) > 0 {
			f.t.Errorf("left are %v", left)
		}
	})
}

// What has got away from its worker and has lost the run's mark is still in the
// worker's limits, which give it away to a sweep where nothing else does.
func TestASweepFindsWhatOnlyLimitsHold(t *testing.T) {
	t.Parallel()
	eachCage(t, 1, `(env -i sleep 1000 & echo $! > child); echo up > up-0; exec sleep 1000`, func(f *fixture) {
		f.order.Limits = cluster.Limits{MemoryBytes: 64 << 20}
		f.repeats().start()
		f.started()
		f.awaitFile("up-0")
		child, err := strconv.Atoi(strings.TrimSpace(f.awaitFile("child")))
		if err != nil {
			f.t.Fatal(err)
		}
		p, err := identify(child)
		if err != nil {
			f.t.Fatal(err)
		}
		f.killShim()
		if lists, err := Inside([]string{f.dir}); err != nil || !slices.Contains(lists[0].PIDs, child) {
			f.t.Errorf("%d is not among %v, %v", child, lists, err)
		}
		if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
			f.t.Errorf("sweep: %v", err)
		}
		if Alive(p) {
			f.t.Error("the process lives")
			_ = unix.Kill(child, unix.SIGKILL)
		}
		if left := f.limitsLeft(); len(left) > 0 {
			f.t.Errorf("left are %v", left)
		}
	})
}

// fakeCgroup is a directory that looks like a cgroup v2 whose files hold these texts.
func fakeCgroup(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text, 0o644)
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
	l := &limits{workers: []bound{{Limits: cluster.Limits{MemoryBytes: 1 << 30, CPUs: 1.5}}, {Limits: cluster.Limits{MemoryBytes: 1 << 30, CPUs: 1.5}}}}
	for _, worker := range []string{"worker-0", "worker-1"} { // the kernel makes these files, a mkdir here does not
		fakeCgroup(t, filepath.Join(top, worker), map[string]string{"memory.max": "", "memory.oom.group": "", "cpu.max": ""})
	}
	c := &containment{limits: l, kind: Cgroup2, path: top}
	for _, controller := range []string{"memory", "cpu"} {
		fakeCgroup(t, top, map[string]string{"cgroup.subtree_control": ""})
		if err := l.inV2(c, top, controller, true); err != nil {
			t.Fatal(err)
		}
		if got := (&fixture{t: t, root: top}).read("cgroup.subtree_control"); !strings.HasPrefix(got, "+"+controller) {
			t.Errorf("turned on %q", got)
		}
	}
	if err := l.inV2(c, "", "cpu", true); !errors.Is(err, errElsewhere) {
		t.Errorf("without cgroup v2: %v", err)
	}
	for local, worker := range []string{"worker-0", "worker-1"} {
		f := &fixture{t: t, root: filepath.Join(top, worker)}
		if f.read("memory.max") != "1073741824" || f.read("memory.oom.group") != "1" || f.read("cpu.max") != "150000 100000" {
			t.Errorf("%s: %q, %q, %q", worker, f.read("memory.max"), f.read("memory.oom.group"), f.read("cpu.max"))
		}
		if l.workers[local].born != f.root || l.workers[local].enter != nil {
			t.Errorf("%s is born in %q", worker, l.workers[local].born)
		}
		fakeCgroup(t, f.root, map[string]string{"memory.events": "low 0\nhigh 0\nmax 12\noom 0\noom_kill 1\noom_group_kill 1\n"})
		if _, yes := c.starved(local); yes {
			t.Error("a kill for another cgroup's memory is taken for the limit's")
		}
		fakeCgroup(t, f.root, map[string]string{"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 1\n"})
		if limit, yes := c.starved(local); !yes || limit != 1<<30 {
			t.Errorf("a kill at the limit is not seen: %d, %v", limit, yes)
		}
	}
	if err := set(top, "memory.max.none", "1"); err == nil || !strings.Contains(err.Error(), "set memory.max.none to 1") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A node that cannot keep a limit refuses, and says why.
func TestLimitsThatCannotBeKeptRefuse(t *testing.T) {
	t.Parallel()
	l := &limits{workers: []bound{{Limits: cluster.Limits{CPUs: 1}}}}
	if err := l.inV1("bellows/not/a/name", "cpu"); err == nil {
		t.Error("a group of an impossible name was made")
	}
	if err := l.inV1("x", "no-such-controller"); err == nil || !strings.Contains(err.Error(), "offers no no-such-controller controller") {
		t.Errorf("a controller that there is not: %v", err)
	}
	if got := quota(0.001); got != 1000 {
		t.Errorf("less than the kernel takes: %d", got)
	}
}

// The kernel gives a controller to children only where no process is beside them:
// a shim alone in its scope moves into a leaf, and one that is not alone says so.
// Any controller of the real cgroup v2 shows that.
func TestAShimMakesRoomForControllers(t *testing.T) {
	t.Parallel()
	needsKind(t, Cgroup2)
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
	scope, err := newCgroup("bellows-scope-" + itoa(os.Getpid()) + "-" + itoa(int(testGroups.Add(1))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = scope.kill()
		eventually(t, "an empty scope", func() bool { return scope.remove() == nil })
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
	if err := delegate(string(scope), controller, false); err == nil || !strings.Contains(err.Error(), "holds processes besides") {
		t.Errorf("without a scope: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	alone, _ := start(os.Args[0], "delegate", string(scope), controller)
	eventually(t, "the controller below the scope", func() bool {
		b, err := os.ReadFile(filepath.Join(string(scope), "cgroup.subtree_control"))
		return err == nil && slices.Contains(strings.Fields(string(b)), controller)
	})
	if inside := members(filepath.Join(string(scope), "shim")); !slices.Equal(inside, []int{alone.Process.Pid}) {
		t.Errorf("in the leaf are %v, want %d", inside, alone.Process.Pid)
	}
}

// An ordinary user may limit nothing: the run is refused, not started without.
func TestWhoMayLimitNothingRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, ": > started")
	f.order.Limits = cluster.Limits{MemoryBytes: 64 << 20}
	r := f.startUnprivileged().stopped()
	if r.Failed == nil || r.Failed.Kind != record.NodeRefused || !strings.Contains(r.Failed.Reason, "limit the workers' memory: ") {
		t.Errorf("failed %+v", r.Failed)
	}
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "started")); err == nil {
		t.Error("a worker has run without its limit")
	}
	f.retire()
}
