package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
)

// eachCage runs a test in every containment, weak included: limits are apart from it.
func eachCage(t *testing.T, ranks int, script string, test func(f *fixture)) {
	needsLimits(t)
	for _, kind := range append(kinds(), run.Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != run.Weak {
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
	var rec rundir.Record
	if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
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
		var rec rundir.Record
		if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
			f.t.Fatal(err)
		}
		tops := rec.Limits
		if len(tops) == 0 {
			tops = []string{rec.Cgroup}
		}
		for _, worker := range []string{"worker-0", "worker-1"} {
			throttled := int64(0)
			for end := time.Now().Add(agenttest.Patience); throttled < 3 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				throttled = timesThrottled(filepath.Join(tops[0], worker))
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
					agenttest.Eventually(f.t, "the group is removed", func() bool { return len(f.limitsLeft()) == 0 })
				}
				f.retire()
				log, err := os.ReadFile(filepath.Join(f.dir, rundir.LogFile))
				if warned := strings.Contains(string(log), "remove cgroup"); err != nil || warned != stays {
					f.t.Errorf("the shim has warned of a group that it leaves: %v, %v", warned, err)
				}
				leave()
				for _, top := range f.limitsLeft() {
					if err := contain.RemoveAll([]string{top}); err != nil {
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
	var rec rundir.Record
	if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
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
	if err := os.WriteFile(filepath.Join(rec.Limits[0], "cgroup.procs"), []byte(strconv.Itoa(guest.Process.Pid)), 0); err != nil {
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
		p, err := proc.Identify(child)
		if err != nil {
			f.t.Fatal(err)
		}
		f.killShim()
		if lists, err := sweep.Inside([]string{f.dir}); err != nil || !slices.Contains(lists[0].PIDs, child) {
			f.t.Errorf("%d is not among %v, %v", child, lists, err)
		}
		if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
			f.t.Errorf("sweep: %v", err)
		}
		if proc.Alive(p) {
			f.t.Error("the process lives")
			_ = unix.Kill(child, unix.SIGKILL)
		}
		if left := f.limitsLeft(); len(left) > 0 {
			f.t.Errorf("left are %v", left)
		}
	})
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

// timesThrottled is how often the kernel has slowed a group down; 0 if it does not tell.
func timesThrottled(dir string) (n int64) {
	b, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "nr_throttled %d", &n); err == nil {
			return n
		}
	}
	return 0
}
