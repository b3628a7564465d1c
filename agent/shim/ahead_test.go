package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
)

// Each worker is its own process, executed before there is a plan, and goes on as the rank that the plan gives it.
func TestWorkersAreParkedAndGoOn(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 2, `
import os, sys, time
import helper
print("imported", __name__, sys.argv)
rank = os.environ["RANK"]
print("rank", rank, "of", os.environ["WORLD_SIZE"])
while rank == "1" and not os.path.exists("go"): time.sleep(0.01)
sys.exit(3 if rank == "1" else 0)
`, "VALUE = 1\n")
	if at := f.last.Prepared.Parked; at != "train.py:5 (reads RANK)" {
		t.Errorf("parked at %q", at)
	}
	if left, err := os.ReadDir(filepath.Join(f.root, "logs")); err == nil && len(left) > 0 {
		t.Errorf("logs before the start: %v", left)
	}
	r := f.startWarm(plan)
	agenttest.Eventually(t, "rank 0 has ended", func() bool { return !proc.Alive(f.worker(r, 0)) })
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go"), "", 0o644)
	r = f.stopped()
	if len(r.Stopped.Exits) != 2 || r.Stopped.Exits[0].Code != 0 || r.Stopped.Exits[1].Code != 3 {
		t.Errorf("exits %+v", r.Stopped.Exits)
	}
	for rank := range 2 {
		want := fmt.Sprintf("imported __main__ ['train.py', '--lr', '0.1']\nrank %d of 2\n", rank)
		if log := f.read("logs", "rank-"+strconv.Itoa(rank)+".log"); log != want {
			t.Errorf("log of rank %d: %q, want %q", rank, log, want)
		}
	}
	f.retire()
}

// A module that is loaded when it is first used is not used by what runs ahead.
func TestWhatIsLoadedLateIsNotLoaded(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 1, `
import importlib.util, os, sys
spec = importlib.util.find_spec("helper")
spec.loader = importlib.util.LazyLoader(spec.loader)
helper = sys.modules["helper"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helper)
rank = os.environ["RANK"]
print("still", type(helper).__name__)
sys.ready = True
print("loaded", helper.READY)
`, "import sys\nREADY = getattr(sys, 'ready', False)\n")
	r := f.startWarm(plan)
	agenttest.Eventually(t, "it has ended", func() bool { return !proc.Alive(f.worker(r, 0)) })
	f.stopped()
	if log := f.read("logs", "rank-0.log"); log != "still _LazyModule\nloaded True\n" {
		t.Errorf("log: %q", log)
	}
	f.retire()
}

func TestAParkedProcessThatDies(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 2, ranScript, "VALUE = 1\n")
	r := f.killParked()
	if r.Prepared.Ready || r.Failed != nil {
		t.Errorf("report %+v", r)
	}
	agenttest.Eventually(t, "the other one is gone", func() bool { return len(f.ahead()) == 0 })
	f.startCold(plan, "has ended")
	if log := f.ended(1); log != "value 1\nrank 1 parked \n" {
		t.Errorf("log:\n%s", log)
	}
}

// spins runs ahead until a file is there, and says then whether another process lives that is named in it.
const spins = `
import os
while not os.path.exists("go"): pass
with open("go") as f: pid = f.read().strip()
print("what ran ahead", "lives" if os.path.exists("/proc/" + pid) else "is gone")
`

// runsAhead starts a prepared run of such a script, and waits until it runs ahead.
func runsAhead(t *testing.T) (f *fixture, plan run.Order, pid int) {
	t.Helper()
	f = newFixture(t, 1, "")
	f.pyScript(spins)
	plan = f.prepares(func(*run.Prepare) {})
	f.start()
	agenttest.Eventually(t, "the script runs ahead", func() bool {
		for _, p := range f.ahead() {
			if b, err := os.ReadFile(proc.Root.File(p.PID, "cmdline")); err == nil && strings.Contains(string(b), "train.py") {
				pid = p.PID
			}
		}
		return pid != 0
	})
	return f, plan, pid
}

// Workers that are executed, because none was parked in time, are so once what ran ahead is gone: a job
// has not the memory of both.
func TestAColdStartWaitsUntilWhatRanAheadIsGone(t *testing.T) {
	t.Parallel()
	f, plan, pid := runsAhead(t)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go.new"), strconv.Itoa(pid), 0o644)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil { // or it would see the file
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(f.order.Workdir, "go.new"), filepath.Join(f.order.Workdir, "go")); err != nil {
		t.Fatal(err)
	}
	f.startCold(plan, "not parked when it had to start")
	if log := f.ended(0); log != "what ran ahead is gone\n" {
		t.Errorf("log: %q", log)
	}
}

// A process that the shim itself has ended teaches nothing: what it imported has not ended it.
func TestAProcessThatIsGivenUpTeachesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("import os, helper\nprint(os.environ['RANK'])\n")
	f.writes("data", "")
	f.writes("helper.py", "import os\nHELD = open('data')\nwhile not os.path.exists('go'): pass\n")
	plan := f.prepares(func(*run.Prepare) {})
	f.start()
	data := filepath.Join(f.order.Workdir, "data")
	agenttest.Eventually(t, "a process is in the import", func() bool {
		return slices.ContainsFunc(f.ahead(), func(p run.Process) bool {
			open, err := filepath.Glob(proc.Root.File(p.PID, "fd/*"))
			return err == nil && slices.ContainsFunc(open, func(fd string) bool {
				to, err := os.Readlink(fd)
				return err == nil && to == data
			})
		})
	})
	f.startCold(plan, "it was not parked when it had to start")
	f.writes("go", "")
	if log := f.ended(0); log != "0\n" {
		t.Errorf("log: %q", log)
	}
	if l := warm.ReadLearned(f.order.LearnedFile); len(l.Before) != 0 {
		t.Errorf("learned %+v", l.Before)
	}
}

// What runs ahead is a process of the owner's: none is started before it is known when it has to be dead.
func TestNothingRunsAheadWithoutADeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("import os\nos.environ['RANK']\n")
	f.prepares(func(*run.Prepare) {})
	f.order.Strict = true
	f.start()
	select {
	case r := <-f.conn.Reports():
		if r.Prepared != nil {
			t.Errorf("without a deadline: prepared %+v", r.Prepared)
		}
	case <-time.After(agenttest.Patience):
		t.Fatal("no report")
	}
	time.Sleep(200 * time.Millisecond) // in which nothing may happen
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(all, func(s proc.Stat) bool { return s.PPID == f.shim.PID }) {
		t.Error("it has a child without a deadline")
	}
	f.push(run.Wish{Deadline: proc.Boottime() + int64(time.Minute)})
	f.await("prepared", func(r run.Report) bool { return r.Prepared != nil && r.Prepared.Ready })
	f.kill()
}

// What runs ahead may not have of memory the kernel does not give it, and workers are not held by its
// bound: it has none of theirs. It leaves no group behind.
func TestTheKernelBoundsWhatRunsAhead(t *testing.T) {
	needsLimits(t)
	for _, kind := range append(kinds(), run.Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != run.Weak {
				needsKind(t, kind)
			}
			for _, much := range []bool{true, false} {
				f := newFixture(t, 1, "")
				if !much {
					f.repeats()
				}
				f.order.Containment = kind
				// All at once, and given back before a look at it.
				const big = "B = b'x' * (200 << 20)\ndel B\n"
				f.pyScript("import os\n" + map[bool]string{true: big}[much] + "print('rank', os.environ['RANK'])\n" + big + "print('ran')\n")
				plan := f.prepares(func(p *run.Prepare) { p.Memory = 100 << 20 })
				p := f.startPrepared().Prepared
				if p.Ready == much || much && !strings.Contains(p.Cold, "of memory") {
					t.Errorf("much %v: prepared %+v", much, p)
				}
				if p.Ready {
					f.kernelBounds(map[string]string{"memory.limit_in_bytes": "104857600", "memory.max": "104857600"})
				}
				f.bind(plan)
				f.push(run.Wish{Start: true})
				if r := f.started(); r.Warm == much {
					t.Errorf("much %v: warm %v, %+v", much, r.Warm, r.Prepared)
				}
				if log := f.ended(0); log != "rank 0\nran\n" {
					t.Errorf("much %v: log:\n%s", much, log)
				}
				if left := f.limitsLeft(); len(left) > 0 {
					t.Errorf("much %v: left: %q", much, left)
				}
			}
		})
	}
}

// kernelBounds demands that what is parked is in a group of the run's with one of these limits.
func (f *fixture) kernelBounds(limits map[string]string) {
	f.t.Helper()
	var rec rundir.Record
	if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
		f.t.Fatal(err)
	}
	for _, p := range f.ahead() {
		if !slices.ContainsFunc(append(rec.Limits, rec.Cgroup), func(top string) bool { return top != "" && bounds(top, p.PID, limits) }) {
			f.t.Errorf("process %d is in no group with one of %v", p.PID, limits)
		}
	}
}

// bounds reports whether a process is below a group, in one with one of these limits.
func bounds(top string, pid int, limits map[string]string) bool {
	var dirs []string
	contain.EachGroup(top, func(dir string) { dirs = append(dirs, dir) })
	for _, dir := range dirs {
		for name, want := range limits {
			limit, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && strings.TrimSpace(string(limit)) == want && slices.Contains(contain.Members(dir), pid) {
				return true
			}
		}
	}
	return false
}

// forks is a program that forks as often as it may, and says how often that was.
const forks = `
import os, signal
def fork(most):
    made = []
    while len(made) < most:
        try:
            pid = os.fork()
        except BlockingIOError:
            break
        if pid == 0:
            signal.pause()
            os._exit(0)
        made.append(pid)
    for pid in made:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(made)
`

// What waits starts no more processes than a job may for one device, and has no more of the processors
// than a worker; its workers have the bounds of their plan.
func TestProcessesOfWhatWaitsAreBounded(t *testing.T) {
	needsLimits(t)
	if !canBind(t) {
		t.Skip("this machine's kernel bounds no processes for this user, so there is nothing to test")
	}
	for _, kind := range append(kinds(), run.Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != run.Weak {
				needsKind(t, kind)
			}
			f := newFixture(t, 2, "")
			f.pyScript(forks + `
fd = int(os.environ["BELLOWS_READY_FD"])
with open("bombed", "w") as f: print(fork(60), file=f)
os.write(fd, b"r")
told = b""
while not told.endswith(b"\0\0"): told += os.read(fd, 1 << 16)
if b"\0RANK=0\0" in told: print(fork(45))
`)
			f.order.Containment, f.order.Processes, f.order.Limits.CPUs = kind, 30, 2
			plan := f.prepares(func(p *run.Prepare) { p.Waits, p.Workers = true, 2 })
			f.ready(2)
			if n, err := strconv.Atoi(strings.TrimSpace(f.awaitFile("bombed"))); err != nil || n == 0 || n >= 30 {
				t.Errorf("what waits has started %d processes, %v", n, err)
			}
			f.kernelBounds(map[string]string{"cpu.cfs_quota_us": "200000", "cpu.max": "200000 100000"})
			if r := f.startWarm(plan); r.Processes != 60 {
				t.Errorf("with %d processes", r.Processes)
			}
			if log := f.ended(0); log != "45\n" {
				t.Errorf("log:\n%s", log)
			}
			if left := f.limitsLeft(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// While it runs ahead a process leaves the processors to others, but not for ever; also one behind a wrapper.
func TestWhatRunsAheadIsCalm(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t) // who else may not raise priorities does not lower one for a while
	const calm = 19
	f := newFixture(t, 1, "")
	f.pyScript("import os, time\nos.environ['RANK']\ntime.sleep(1000)\n")
	agenttest.Write(t, filepath.Join(f.order.Workdir, "python3"), "#!/bin/sh\n"+interpreter(t)+" \"$@\"\n", 0o755)
	f.order.Command[0] = "./python3"
	began := time.Now()
	plan := f.prepares(func(*run.Prepare) {})
	f.ready(1)
	before := agenttest.Nice(t, tree(t, f.ahead()[0].PID))
	if time.Since(began) < warm.CalmFor && slices.ContainsFunc(before, func(n int) bool { return n != calm }) {
		t.Errorf("it runs ahead with %v", before)
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := f.startWarm(plan)
	after := agenttest.Nice(t, tree(t, r.Workers[0].PID))
	if len(after) < 2 || slices.ContainsFunc(after, func(n int) bool { return n != 20-own && n != 0 }) {
		t.Errorf("its worker runs with %v", after)
	}
	f.kill()
}

// What a parked process can be spoken to by is open in it and in its shim alone, and has no name: another user
// cannot connect to it. It has no other descriptor than that and its standard streams.
func TestAParkedProcessHasNoAddress(t *testing.T) {
	t.Parallel()
	f, _ := readyRun(t, 1, ranScript, "VALUE = 1\n")
	dir := proc.Root.File(f.ahead()[0].PID, "fd")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 4 {
		t.Errorf("its descriptors: %v", names)
	}
	to, err := os.Readlink(filepath.Join(dir, "3"))
	if err != nil || !strings.HasPrefix(to, "socket:") {
		t.Fatal(to, err)
	}
	inode := strings.Trim(strings.TrimPrefix(to, "socket:"), "[]")
	table, err := os.ReadFile(string(proc.Root) + "/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(table)) { // number, references, protocol, flags, type, state, inode, path
		fields := strings.Fields(line)
		if len(fields) < 7 || fields[6] != inode {
			continue
		}
		found++
		if len(fields) > 7 || fields[5] != "03" { // connected, as one of a pair
			t.Errorf("its socket: %s", line)
		}
	}
	if found != 1 {
		t.Errorf("%d of its sockets are known to the kernel", found)
	}
	f.kill()
}

// What runs ahead dies with its shim, like a worker: when it is parked, and before.
func TestWhatRunsAheadDiesWithItsShim(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"parked", "runs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f *fixture
			if name == "parked" {
				f, _ = readyRun(t, 2, ranScript, "VALUE = 1\n")
			} else {
				var pid int
				f, _, pid = runsAhead(t)
				if err := unix.Kill(pid, unix.SIGSTOP); err != nil { // or it would see by itself that nobody speaks with it any more
					t.Fatal(err)
				}
			}
			all := f.ahead()
			if len(all) == 0 {
				t.Fatal("nothing runs ahead")
			}
			f.killShim()
			for _, p := range all {
				f.gone("what ran ahead", p)
			}
			if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
				t.Error(err)
			}
			f.nothingLeft()
		})
	}
}

// A worker that leaves a daemon behind, one that is killed, one whose shim is: as when
// they were executed.
func TestReleasedWorkersAreHeld(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 2, `
import os, subprocess, sys, time
if os.environ["RANK"] == "1":
    subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & sleep 1000"])
    open("up-1", "w").write("up\n")
time.sleep(1000)
`, "")
	r := f.startWarm(plan)
	f.awaitFile("up-1")
	if marked := len(agenttest.Named(t, f.dir)); marked < 3 { // both workers and what one has started
		t.Errorf("%d processes are found by their environment", marked)
	}
	for i := range r.Workers {
		s, err := proc.ReadStat(r.Workers[i].PID)
		if err != nil || s.PPID != f.shim.PID {
			t.Errorf("worker %d: %+v, %v: it is no child of the shim's", i, s, err)
		}
	}
	f.killShim()
	for i := range r.Workers {
		f.gone("a worker whose shim was killed", f.worker(r, i))
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Error(err)
	}
	f.nothingLeft()
}

// Limits hold released workers as they hold others, each by its own; what runs ahead is in none of their groups.
func TestLimitsHoldReleasedWorkers(t *testing.T) {
	t.Parallel()
	needsLimits(t)
	for _, wrapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wrapped %t", wrapped), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			f.pyScript("import os\nos.environ['RANK']\nB = bytearray(600 << 20)\nprint('has it')\n")
			if wrapped {
				agenttest.Write(t, filepath.Join(f.order.Workdir, "python3"), "#!/bin/sh\n"+interpreter(t)+" \"$@\"\n", 0o755)
				f.order.Command[0] = "./python3"
			}
			f.order.Limits = cluster.Limits{MemoryBytes: 256 << 20}
			plan := f.prepares(func(*run.Prepare) {})
			f.ready(1)
			f.startWarm(plan)
			if r := f.stopped(); r.Failed == nil || !r.Failed.OutOfMemory {
				t.Errorf("failed %+v", r.Failed)
			}
			f.retire()
		})
	}
}

// tree is a process, and what it has started.
func tree(t *testing.T, pid int) []int {
	t.Helper()
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{pid}
	for _, p := range proc.FamilyOf(all).Descendants(map[int]bool{pid: true}) {
		pids = append(pids, p.PID)
	}
	return pids
}
