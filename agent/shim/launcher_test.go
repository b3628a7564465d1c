package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// ranScript says in its log how it was started, and ends.
const ranScript = `
import sys
print("ran", "helper" in sys.modules)
import helper
print("value", helper.VALUE)
`

// readyRun starts a prepared run of a script that imports helper.py, and demands that its launcher is ready.
func readyRun(t *testing.T, ranks int, script, helper string) (f *fixture, plan Order) {
	t.Helper()
	f = newFixture(t, ranks, "")
	f.pyScript(script)
	write(t, filepath.Join(f.order.Workdir, "helper.py"), helper, 0o644)
	plan = f.prepared()
	f.order.Prepare.Modules = []string{"helper"}
	plan.Prepare = f.order.Prepare
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	return f, plan
}

// launcherOf finds the launcher by what all of a run's processes are found by.
func (f *fixture) launcherOf() Process {
	f.t.Helper()
	c, err := observed.census()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range c.marked(f.dir, nil) {
		if s.pid != f.shim.PID && s.ppid == f.shim.PID {
			p, err := identify(s.pid)
			if err != nil {
				f.t.Fatal(err)
			}
			return p
		}
	}
	f.t.Fatal("there is no launcher")
	return Process{}
}

// killLauncher kills the launcher, and waits until it is missed.
func (f *fixture) killLauncher() Report {
	f.t.Helper()
	if err := unix.Kill(f.launcherOf().PID, unix.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	return f.await("cold", func(r Report) bool { return r.Prepared.Cold != "" })
}

// startCold carries the plan out, and demands that each worker was executed, once, for that reason.
func (f *fixture) startCold(plan Order, why string) Report {
	f.t.Helper()
	f.bind(plan)
	f.push(Wish{Start: true})
	r := f.started()
	if r.Warm || r.Prepared == nil || !strings.Contains(r.Prepared.Cold, why) || r.Prepared.Ready {
		f.t.Fatalf("warm %v, prepared %+v, want cold: %s", r.Warm, r.Prepared, why)
	}
	return r
}

// ended waits for the end of a script that fails not, and returns the log of a rank.
func (f *fixture) ended(rank int) string {
	f.t.Helper()
	if r := f.stopped(); !r.Stopped.Finished || r.Failed != nil {
		f.t.Errorf("stopped %+v, failed %+v", r.Stopped, r.Failed)
	}
	f.retire()
	return f.read("logs", "rank-"+itoa(rank)+".log")
}

func TestALauncherThatDies(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 2, ranScript, "VALUE = 1\n")
	r := f.killLauncher()
	if r.Prepared.Ready || r.Failed != nil {
		t.Errorf("report %+v", r)
	}
	f.startCold(plan, "has ended")
	if log := f.ended(1); log != "ran False\nvalue 1\n" {
		t.Errorf("log:\n%s", log)
	}
}

// Workers that are executed, because their launcher is not ready in time, are so once it is gone: a job
// has not the memory of both.
func TestAColdStartWaitsUntilTheLauncherIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("import os\npid = open('importing').read().strip()\nprint('launcher', 'lives' if os.path.exists('/proc/' + pid) else 'gone')\n")
	write(t, filepath.Join(f.order.Workdir, "slow.py"), "import os, time\nwith open('importing.new', 'w') as f: f.write(f'{os.getpid()}\\n')\nos.rename('importing.new', 'importing')\ntime.sleep(1000)\n", 0o644)
	plan := f.prepared()
	f.order.Prepare.Modules = []string{"slow"}
	plan.Prepare = f.order.Prepare
	f.start()
	f.awaitFile("importing")
	f.startCold(plan, "not ready when it had to start")
	if log := f.ended(0); log != "launcher gone\n" {
		t.Errorf("log: %q", log)
	}
}

// A launcher that ends while it forks, before the script: all is done again without.
func TestALauncherThatDiesWhileItForks(t *testing.T) {
	t.Parallel()
	// The first fork of all is for a look at threads.
	const forks = "import os\nFORKS = [0]\ndef forks():\n    FORKS[0] += 1\n    FORKS[0] == %d and os._exit(1)\nos.register_at_fork(before=forks)\nVALUE = 2\n"
	for name, helper := range map[string]string{
		"launcher":                      fmt.Sprintf(forks, 2),
		"launcher with a worker forked": fmt.Sprintf(forks, 3),
		"worker":                        "import os\nos.register_at_fork(after_in_child=lambda: os._exit(1))\nVALUE = 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, plan := readyRun(t, 2, ranScript, helper)
			f.startCold(plan, "")
			if log := f.ended(0); log != "ran False\nvalue 2\n" {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// A worker that ends between its birth and its release, where that is not rank 0, is one that has ended: its
// peers run, and are told of it. Without rank 0 none runs, and all are executed.
func TestAWorkerThatDiesBeforeItsRelease(t *testing.T) {
	t.Parallel()
	// Where rank 0 dies, rank 1 is not born before that: the shim releases none before all are born.
	const dies = `
import os, socket, time
DIES = "%d"
recv, sendall = socket.socket.recv, socket.socket.sendall
def dead(pid):
    try:
        with open(f"/proc/{pid}/stat") as f: return f.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
def die(self, *args):
    if os.environ.get("RANK") != DIES:
        return recv(self, *args)
    with open("dying.new", "w") as f: f.write(str(os.getpid()))
    os.rename("dying.new", "dying")
    os._exit(7)
def say(self, data):
    if DIES == "0" and os.environ.get("RANK") == "1":
        while not os.path.exists("dying"): time.sleep(0.002)
        with open("dying") as f: pid = f.read()
        while not dead(pid): time.sleep(0.002)
    return sendall(self, data)
socket.socket.recv, socket.socket.sendall = die, say
VALUE = 3
`
	t.Run("rank 0", func(t *testing.T) {
		t.Parallel()
		f, plan := readyRun(t, 2, ranScript, fmt.Sprintf(dies, 0))
		f.startCold(plan, "a forked worker has ended")
		if log := f.ended(1); log != "ran False\nvalue 3\n" {
			t.Errorf("log:\n%s", log)
		}
	})
	t.Run("rank 1", func(t *testing.T) {
		t.Parallel()
		f, plan := readyRun(t, 2, "import time\ntime.sleep(1000)\n", fmt.Sprintf(dies, 1))
		f.bind(plan)
		f.push(Wish{Start: true})
		r := f.stopped()
		if r.Failed == nil || r.Failed.Rank != 1 || !strings.Contains(r.Failed.Reason, "7") || !r.Warm {
			t.Errorf("warm %v, failed %+v", r.Warm, r.Failed)
		}
		f.retire()
	})
}

// What a launcher may not have of memory the kernel does not give it, and workers are not held by its
// bound: it has none of theirs. It leaves no group behind.
func TestTheKernelBoundsALauncher(t *testing.T) {
	needsLimits(t)
	for _, kind := range append(kinds(), Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != Weak {
				needsKind(t, kind)
			}
			// All at once, and gone before a look at it.
			for module, source := range map[string]string{"much": "import os\nB = b'x' * (200 << 20)\nos._exit(0)\n", "little": ""} {
				f := newFixture(t, 1, "")
				if module == "little" {
					f.repeats()
				}
				f.order.Containment = kind
				f.pyScript("B = b'x' * (200 << 20)\nprint('ran')\n")
				write(t, filepath.Join(f.order.Workdir, module+".py"), source, 0o644)
				plan := f.prepared()
				f.order.Prepare.Modules, f.order.Prepare.Memory = []string{module}, 100<<20
				plan.Prepare = f.order.Prepare
				p := f.startPrepared().Prepared
				if p.Ready {
					f.kernelBounds(f.launcherOf(), map[string]string{"memory.limit_in_bytes": "104857600", "memory.max": "104857600"})
				}
				if want := module == "little"; p.Ready != want || p.Cold != "" && !strings.Contains(p.Cold, "of memory") {
					t.Errorf("%s: prepared %+v", module, p)
				}
				f.bind(plan)
				f.push(Wish{Start: true})
				if r := f.started(); r.Warm != p.Ready {
					t.Errorf("%s: warm %v", module, r.Warm)
				}
				if log := f.ended(0); log != "ran\n" {
					t.Errorf("%s: log:\n%s", module, log)
				}
				if left := f.limitsLeft(); len(left) > 0 {
					t.Errorf("%s: left: %q", module, left)
				}
			}
		})
	}
}

// kernelBounds demands that a process is in a group of the run's with one of these limits.
func (f *fixture) kernelBounds(p Process, limits map[string]string) {
	f.t.Helper()
	var rec runRecord
	if err := readJSON(filepath.Join(f.dir, shimFile), &rec); err != nil {
		f.t.Fatal(err)
	}
	for _, top := range append(rec.Limits, rec.Cgroup) {
		if top == "" {
			continue
		}
		for _, dir := range cgroupsBelow(top) {
			for name, want := range limits {
				limit, err := os.ReadFile(filepath.Join(dir, name))
				if err == nil && strings.TrimSpace(string(limit)) == want && slices.Contains(members(dir), p.PID) {
					return
				}
			}
		}
	}
	f.t.Errorf("the launcher is in no group with one of %v", limits)
}

// What a launcher imports starts no more processes than a job may for one device, and has no more of the processors
// than a worker; its workers have the bounds of their plan.
func TestALaunchersProcessesAreBounded(t *testing.T) {
	needsLimits(t)
	if !canBind(t) {
		t.Skip("this machine's kernel bounds no processes for this user, so there is nothing to test")
	}
	for _, kind := range append(kinds(), Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != Weak {
				needsKind(t, kind)
			}
			f := newFixture(t, 2, "")
			f.pyScript("import bomb, os\nif os.environ['RANK'] == '0': print(bomb.fork(45))\n")
			write(t, filepath.Join(f.order.Workdir, "bomb.py"), `
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
with open("bombed", "w") as f: print(fork(60), file=f)
`, 0o644)
			f.order.Containment, f.order.Processes, f.order.Limits.CPUs = kind, 30, 2
			plan := f.prepared()
			f.order.Prepare.Modules = []string{"bomb"}
			plan.Prepare = f.order.Prepare
			if p := f.startPrepared().Prepared; !p.Ready {
				t.Fatalf("prepared %+v", p)
			}
			if n, err := strconv.Atoi(strings.TrimSpace(f.awaitFile("bombed"))); err != nil || n == 0 || n >= 30 {
				t.Errorf("the launcher has started %d processes, %v", n, err)
			}
			f.kernelBounds(f.launcherOf(), map[string]string{"cpu.cfs_quota_us": "200000", "cpu.max": "200000 100000"})
			f.bind(plan)
			f.push(Wish{Start: true})
			if r := f.started(); !r.Warm || r.Processes != 60 {
				t.Errorf("warm %v, with %d processes", r.Warm, r.Processes)
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

// While it imports a launcher leaves the processors to others, but not for ever.
func TestALauncherIsCalm(t *testing.T) {
	t.Parallel()
	if !mayRaise() {
		t.Skip("only a process that may raise priorities may lower one for a while")
	}
	f := newFixture(t, 1, "")
	f.pyScript("import os\nprint(os.nice(0), 'autogroup', open('/proc/self/autogroup').read().split()[-1] if os.path.exists('/proc/self/autogroup') else '0')\n")
	write(t, filepath.Join(f.order.Workdir, "look.py"), "import os\nwith open('nice', 'w') as f: f.write(f'{os.nice(0)}\\n')\n", 0o644)
	plan := f.prepared()
	f.order.Prepare.Modules = []string{"look"}
	began := time.Now()
	plan.Prepare = f.order.Prepare
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	if nice := f.read("work", "nice"); nice != itoa(calmNice)+"\n" && time.Since(began) < calmFor {
		t.Errorf("it imports with %q", nice)
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.bind(plan)
	f.push(Wish{Start: true})
	if log := f.ended(0); log != itoa(20-own)+" autogroup 0\n" {
		t.Errorf("its worker runs with %q", log)
	}
}

// What has changed since the imports is read again: a module, the script's folder, the
// environment file.
func TestWhatHasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *fixture){
		"module":     func(f *fixture) { write(f.t, filepath.Join(f.order.Workdir, "helper.py"), "VALUE = 22\n", 0o644) },
		"data":       func(f *fixture) { write(f.t, filepath.Join(f.order.Workdir, "data.txt"), "22", 0o644) },
		"removed":    func(f *fixture) { write(f.t, filepath.Join(f.order.Workdir, "extra.py"), "X = 1\n", 0o644) },
		"env file":   func(f *fixture) { write(f.t, f.order.EnvFile, "VALUE=22\n", 0o600) },
		"new, hides": func(f *fixture) { write(f.t, filepath.Join(f.order.Workdir, "colorsys.py"), "X = 22\n", 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			if name != "module" && name != "env file" {
				f.repeats()
			}
			f.pyScript("import colorsys, helper\nprint('value', helper.value(), hasattr(colorsys, 'X'))\n")
			write(t, filepath.Join(f.order.Workdir, "helper.py"), "import os, extra\nwith open('data.txt') as f: DATA = f.read()\nVALUE = 1\ndef value(): return [VALUE, DATA, os.environ['VALUE'], extra.X]\n", 0o644)
			write(t, filepath.Join(f.order.Workdir, "data.txt"), "1", 0o644)
			write(t, filepath.Join(f.order.Workdir, "extra.py"), "X = 22222\n", 0o644)
			f.order.EnvFile = filepath.Join(f.root, "env")
			write(t, f.order.EnvFile, "VALUE=1\n", 0o600)
			plan := f.prepared()
			f.order.Prepare.Modules = []string{"helper", "colorsys"}
			plan.Prepare = f.order.Prepare
			if r := f.startPrepared(); !r.Prepared.Ready {
				t.Fatalf("prepared %+v", r.Prepared)
			}
			change(f)
			f.startCold(plan, map[bool]string{true: "environment has changed", false: ""}[name == "env file"])
			want := map[string]string{
				"module": "AttributeError", "data": "value [1, '22', '1', 22222] False\n", "removed": "value [1, '1', '1', 1] False\n",
				"env file": "value [1, '1', '22', 22222] False\n", "new, hides": "value [1, '1', '1', 22222] True\n",
			}[name]
			f.stopped()
			f.retire()
			if log := f.read("logs", "rank-0.log"); !strings.Contains(log, want) {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// A script that is reached by a link is another one once the link leads elsewhere, as are the modules beside it.
func TestAScriptThatIsAnotherFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("")
	for version, text := range map[string]string{"v1": "one", "v2": "two"} {
		write(t, filepath.Join(f.order.Workdir, version, "train.py"), "import helper\nprint('"+text+"', helper.VALUE)\n", 0o644)
		write(t, filepath.Join(f.order.Workdir, version, "helper.py"), "VALUE = '"+text+"'\n", 0o644)
	}
	current := filepath.Join(f.order.Workdir, "current")
	if err := os.Symlink("v1", current); err != nil {
		t.Fatal(err)
	}
	f.order.Command = []string{f.order.Command[0], "current/train.py"}
	plan := f.prepared()
	f.order.Prepare.Modules = []string{"helper"}
	plan.Prepare = f.order.Prepare
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	if err := errors.Join(os.Remove(current), os.Symlink("v2", current)); err != nil {
		t.Fatal(err)
	}
	f.startCold(plan, "current/train.py is another file now")
	if log := f.ended(0); log != "two two\n" {
		t.Errorf("log: %q", log)
	}
}

// A launcher is the owner's, and may fork what it likes: what is not the shim's own child would not be
// reaped, nor end with it, and is not taken for a worker.
func TestOnlyChildrenAreAdopted(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 1, ranScript, `
import os, sys, time
SHIM = os.getppid()
os.getppid = lambda: SHIM
def forked():
    if sys._getframe(1).f_code.co_name == "fork_all" and os.fork():
        time.sleep(1000) # the worker's parent, which lives
os.register_at_fork(after_in_child=forked)
VALUE = 5
`)
	f.startCold(plan, "is no child of the shim's")
	if log := f.ended(0); log != "ran False\nvalue 5\n" {
		t.Errorf("log: %q", log)
	}
}

// A launcher is a process of the owner's: none is started before it is known when it has to be dead.
func TestALauncherWaitsForTheDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript(ranScript)
	f.prepared()
	f.order.Strict = true
	f.start()
	select {
	case r := <-f.conn.Reports():
		if r.Prepared != nil {
			t.Errorf("without a deadline: prepared %+v", r.Prepared)
		}
	case <-time.After(patience):
		t.Fatal("no report")
	}
	time.Sleep(200 * time.Millisecond) // in which nothing may happen
	c, err := observed.census()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(c.procs, func(s stat) bool { return s.ppid == f.shim.PID }) {
		t.Error("it has a child without a deadline")
	}
	f.push(Wish{Deadline: Boottime() + int64(time.Minute)})
	f.await("prepared", func(r Report) bool { return r.Prepared != nil && r.Prepared.Ready })
	f.push(Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// What imports a module that is not for launchers is found at once, however long the chain: each launcher that is
// started anew imports all again.
func TestChainsOfImportsAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript(ranScript)
	const links = 2 * maxAttempts
	write(t, filepath.Join(f.order.Workdir, "link0.py"), "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\ndef f(): pass\n", 0o644)
	// What is only looked at is not to run code: what that prints each worker would print.
	const asked = "class Asked:\n    @property\n    def __class__(self): open('asked', 'w'); return Asked\nASKED = Asked()\n"
	names := []string{"link0"}
	for i := 1; i < links; i++ {
		names = append(names, "link"+itoa(i))
		source := "import link" + itoa(i-1) + "\n"
		if i%2 == 0 {
			source = "from link" + itoa(i-1) + " import f as g\n"
		}
		write(t, filepath.Join(f.order.Workdir, names[i]+".py"), source+"def f(): pass\n"+asked, 0o644)
	}
	f.prepared()
	f.order.Prepare.Modules = append(names, "colorsys")
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	list := readModules(f.order.ModulesFile)
	for _, name := range names {
		if list.Avoid[name] == "" {
			t.Errorf("%s is not avoided", name)
		}
	}
	if len(list.Avoid) != links {
		t.Errorf("to be avoided: %q", list.Avoid)
	}
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "asked")); err == nil {
		t.Error("an object was asked what it is")
	}
	f.push(Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// A file that is open only while a module is imported is seen by what that imports meanwhile, and is no reason.
func TestAFileThatIsOpenForAMoment(t *testing.T) {
	t.Parallel()
	f, _ := readyRun(t, 1, ranScript, "with open('/dev/zero', 'rb'):\n    import colorsys\nVALUE = 1\n")
	if list := readModules(f.order.ModulesFile); len(list.Avoid) > 0 {
		t.Errorf("to be avoided: %q", list.Avoid)
	}
	f.push(Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// The script itself is read when the workers run it.
func TestAChangedScriptIsRun(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 1, ranScript, "VALUE = 1\n")
	write(t, filepath.Join(f.order.Workdir, "train.py"), "import helper\nprint('changed', helper.VALUE)\n", 0o644)
	f.bind(plan)
	f.push(Wish{Start: true})
	if r := f.started(); !r.Warm {
		t.Errorf("prepared %+v", r.Prepared)
	}
	if log := f.ended(0); log != "changed 1\n" {
		t.Errorf("log: %q", log)
	}
}

// What a launcher can be spoken to by is open in it and in its shim alone, and has no name: another user
// cannot connect to it.
func TestALauncherHasNoAddress(t *testing.T) {
	t.Parallel()
	f, _ := readyRun(t, 1, ranScript, "VALUE = 1\n")
	dir := proc.file(f.launcherOf().PID, "fd")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sockets := map[string]bool{}
	for _, name := range names {
		if to, errLink := os.Readlink(filepath.Join(dir, name.Name())); errLink == nil && strings.HasPrefix(to, "socket:") {
			sockets[strings.Trim(strings.TrimPrefix(to, "socket:"), "[]")] = true
		}
	}
	if len(sockets) != 1 {
		t.Fatalf("its sockets: %v", sockets)
	}
	table, err := os.ReadFile(string(proc) + "/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(table)) { // number, references, protocol, flags, type, state, inode, path
		fields := strings.Fields(line)
		if len(fields) < 7 || !sockets[fields[6]] {
			continue
		}
		found++
		if len(fields) > 7 || fields[5] != "03" { // connected, as one of a pair
			t.Errorf("the launcher's socket: %s", line)
		}
	}
	if found != 1 {
		t.Errorf("%d of its sockets are known to the kernel", found)
	}
	f.push(Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// A worker that leaves a daemon behind, one that is killed, one whose shim is: as when
// they were executed.
func TestForkedWorkersAreHeld(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 2, `
import os, subprocess, sys, time
if os.environ["RANK"] == "1":
    subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & sleep 1000"])
    open("up-1", "w").write("up\n")
time.sleep(1000)
`, "VALUE = 1\n")
	f.bind(plan)
	f.push(Wish{Start: true})
	r := f.started()
	f.awaitFile("up-1")
	if !r.Warm {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	c, err := observed.census()
	if marked := len(c.marked(f.dir, nil)); err != nil || marked < 3 { // both workers and what one has started
		t.Errorf("%d processes are found by their environment, %v", marked, err)
	}
	for i := range r.Workers {
		s, err := readStat(r.Workers[i].PID)
		if err != nil || s.ppid != f.shim.PID {
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

// A launcher dies with its shim, like a worker: when it waits, and while it imports.
func TestALauncherDiesWithItsShim(t *testing.T) {
	t.Parallel()
	t.Run("waits", func(t *testing.T) {
		t.Parallel()
		f, _ := readyRun(t, 1, ranScript, "VALUE = 1\n")
		f.launcherDiesWithShim()
	})
	t.Run("imports", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, 1, "")
		f.pyScript(ranScript)
		write(t, filepath.Join(f.order.Workdir, "slow.py"), "import time\nopen('importing', 'w').write('yes\\n')\ntime.sleep(1000)\n", 0o644)
		f.prepared()
		f.order.Prepare.Modules = []string{"slow"}
		f.start()
		f.awaitFile("importing")
		f.launcherDiesWithShim()
	})
}

func (f *fixture) launcherDiesWithShim() {
	f.t.Helper()
	launcher := f.launcherOf()
	f.killShim()
	f.gone("the launcher", launcher)
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		f.t.Error(err)
	}
	f.nothingLeft()
}

// Limits hold forked workers as they hold others; what they may not have, their
// launcher does not have for them.
func TestLimitsHoldForkedWorkers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("limits need root here")
	}
	f := newFixture(t, 1, "")
	f.pyScript("B = bytearray(600 << 20)\nprint('has it')\n")
	f.order.Limits = cluster.Limits{MemoryBytes: 256 << 20}
	plan := f.prepared()
	r := f.start().await("prepared or refused", func(r Report) bool { return r.Failed != nil || r.Prepared != nil && r.Prepared.Ready })
	if r.Failed != nil {
		t.Skip(r.Failed.Reason)
	}
	f.bind(plan)
	f.push(Wish{Start: true})
	r = f.stopped()
	if r.Failed != nil && strings.Contains(r.Failed.Reason, "limit the workers'") {
		t.Skip(r.Failed.Reason)
	}
	if !r.Warm || r.Failed == nil || !r.Failed.OutOfMemory {
		t.Errorf("warm %v, failed %+v", r.Warm, r.Failed)
	}
	f.retire()
}

func TestRecordedModulesAreImported(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript("import colorsys\nimport helper\nimport os, time\nprint('up')\nopen('up-' + os.environ['RANK'], 'w').write('up\\n')\ntime.sleep(1000)\n")
	write(t, filepath.Join(f.order.Workdir, "helper.py"), "", 0o644)
	f.start().started()
	f.awaitFile("up-0")
	eventually(t, "the list is kept while workers run", func() bool {
		return slices.Contains(readModules(f.order.ModulesFile).Modules, "helper")
	})
	if l := readModules(f.order.ModulesFile); !slices.Contains(l.Modules, "colorsys") || len(l.Avoid) > 0 {
		t.Errorf("list %+v", l)
	}
	f.push(Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// While a script imports its list is added to every two seconds, and seldom once it trains.
func TestListsAreKeptWhileScriptsImport(t *testing.T) {
	pause, waits := firstKept, []time.Duration{}
	for _, added := range []bool{true, true, false, false, true, false} {
		pause = nextKept(pause, added)
		waits = append(waits, pause/time.Second)
	}
	if want := []time.Duration{2, 2, 4, 8, 2, 4}; !slices.Equal(waits, want) {
		t.Errorf("it is added to after %v s, want %v", waits, want)
	}
	if most := nextKept(lastKept, false); most != lastKept {
		t.Errorf("at most after %v", most)
	}
}

func TestNamesOfModulesAreChecked(t *testing.T) {
	l := moduleList{}
	l.add([]string{"a.b", "", "a b", "../x", "a..b", "os;x", strings.Repeat("x", 201), "__main__", "sitecustomize", "a.b", "_c1"})
	if !slices.Equal(l.Modules, []string{"a.b", "_c1"}) {
		t.Errorf("taken: %q", l.Modules)
	}
	for i := range maxModules + 5 {
		l.add([]string{"m" + itoa(i)})
		if i == 10 {
			break
		}
	}
	l.avoid(map[string]string{"a;b": "x", "ok.name": strings.Repeat("w", 5000)})
	if len(l.Avoid) != 1 || len(l.Avoid["ok.name"]) > 300 {
		t.Errorf("avoided: %q", l.Avoid)
	}
}

// TestAnInterpreterBehindAWrapper has a process stand between the shim and the launcher.
func TestAnInterpreterBehindAWrapper(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript("import os, sys\nprint('rank', os.environ['RANK'], 'json' in sys.modules)\n")
	write(t, filepath.Join(f.order.Workdir, "python3"), "#!/bin/sh\n"+interpreter(t)+" \"$@\"\n", 0o755)
	f.order.Command[0] = "./python3"
	plan := f.prepared()
	f.order.Prepare.Modules = []string{"json"}
	plan.Prepare = f.order.Prepare
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	f.bind(plan)
	f.push(Wish{Start: true})
	if r := f.started(); !r.Warm {
		t.Errorf("executed: %+v", r.Prepared)
	}
	f.stopped()
	for rank := range 2 {
		if log := f.read("logs", "rank-"+itoa(rank)+".log"); log != fmt.Sprintf("rank %d True\n", rank) {
			t.Errorf("log of rank %d: %q", rank, log)
		}
	}
	f.retire()
}
