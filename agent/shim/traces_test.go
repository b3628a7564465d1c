package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/internal/durable"
)

// bare is a worker that leaves a daemon without the environment that marks it.
const bare = `
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        os.execve(sys.executable, [sys.executable, "-c", "import os, time; open('own', 'w').write('%d\\n' % os.getpid()); os.rename('own', 'escaped'); time.sleep(1000)"], {})
    os._exit(0)
while not os.path.exists("escaped"): time.sleep(0.01)
while True: time.sleep(1)
`

// recorded is what the run record says, also after its directory has gone.
func (f *fixture) recorded() rundir.Record {
	f.t.Helper()
	rec, err := rundir.ReadRecord(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return rec
}

func (f *fixture) removeDirectory() {
	f.t.Helper()
	err := os.RemoveAll(f.dir)
	for errors.Is(err, unix.ENOTEMPTY) { // its shim has put a file there meanwhile, which it does few times
		err = os.RemoveAll(f.dir)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// A run directory that is gone, as after its tmpfs was unmounted, does not hide
// what lives: neither the shim nor what its containment holds.
func TestSweepNeedsNoDirectory(t *testing.T) {
	t.Parallel()
	for _, kind := range append(kinds(), run.Weak) {
		for _, orphaned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s orphaned=%t", kind, orphaned), func(t *testing.T) {
				t.Parallel()
				if kind != run.Weak {
					needsKind(t, kind)
				}
				f := newFixture(t, 1, "").repeats().python(bare)
				if kind == run.Weak && orphaned { // then the mark is all there is to go by
					f.python(escape + "while True: time.sleep(1)")
				}
				f.order.Containment = kind
				f.start()
				f.started()
				p, rec := f.escaped(), f.recorded()
				if orphaned {
					f.killShim()
				}
				f.removeDirectory()
				if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
					t.Fatal(err)
				}
				if proc.Alive(p) || proc.Alive(f.shim) {
					t.Errorf("after the sweep the daemon lives: %t, the shim: %t", proc.Alive(p), proc.Alive(f.shim))
				}
				if held := heldStill(f.order, f.dir); len(held) > 0 {
					t.Errorf("locks are held: %v", held)
				}
				if _, err := os.Stat(rec.Cgroup); rec.Cgroup != "" && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("cgroup is left: %v", err)
				}
			})
		}
	}
}

// A file that says nothing, says it wrongly, cannot be read or is a later version's
// hides nothing either.
func TestSweepNeedsNoFiles(t *testing.T) {
	t.Parallel()
	damages := map[string]func(path string) error{
		"gone":      os.Remove,
		"truncated": func(path string) error { return os.Truncate(path, 7) },
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"wrong":     func(path string) error { return os.WriteFile(path, []byte("[]"), 0o600) },
		"hollow":    func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"later":     func(path string) error { return os.WriteFile(path, []byte(`{"version":99,"shim":{"pid":1}}`), 0o600) },
		"unreadable": func(path string) error { // to root as well
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
	}
	for _, file := range []string{rundir.OrderFile, rundir.ShimFile, rundir.ReportFile} {
		for name, damage := range damages {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, 1, "").repeats().python(bare).start()
				f.started()
				p := f.escaped()
				f.shimWrites("the workers", func(r run.Report) bool { return r.Workers != nil })
				f.freezeReports()
				if err := damage(filepath.Join(f.dir, file)); err != nil {
					t.Fatal(err)
				}
				runs, unreadable, err := rundir.Scan(f.root)
				adopted := len(runs) == 1 && len(unreadable) == 0 && (runs[0].Shim == f.shim || file == rundir.ShimFile && name == "gone")
				given := len(runs) == 0 && len(unreadable) == 1 && unreadable[0].Dir == f.dir
				if err != nil || adopted == given {
					t.Errorf("scan: %+v, %+v, %v", runs, unreadable, err)
				}
				if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
					t.Fatal(err)
				}
				if proc.Alive(p) || proc.Alive(f.shim) {
					t.Errorf("after the sweep the daemon lives: %t, the shim: %t", proc.Alive(p), proc.Alive(f.shim))
				}
			})
		}
	}
}

// freezeReports keeps the shim from writing its files anew.
func (f *fixture) freezeReports() {
	f.t.Helper()
	if err := syscall.Kill(f.shim.PID, unix.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
}

// Directories that are not there any more are found by who names them.
func TestScanFindsRunsWithoutADirectory(t *testing.T) {
	t.Parallel()
	for _, orphaned := range []bool{false, true} {
		t.Run(fmt.Sprintf("orphaned=%t", orphaned), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").start()
			f.started()
			f.escaped()
			if orphaned {
				f.killShim()
			}
			f.removeDirectory()
			if lost, err := sweep.Lost(f.root); err != nil || !slices.Equal(lost, []string{f.dir}) {
				t.Errorf("Lost: %v, %v", lost, err)
			}
		})
	}
}

// feign starts a process with the command line of a shim that hosts a directory.
func feign(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Args, cmd.Dir = []string{"x", "shim", "--dir", dir}, t.TempDir()
	agenttest.Write(t, filepath.Join(cmd.Dir, "shim"), "while :; do sleep 1; done", 0o600)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	agenttest.Eventually(t, "the command line", func() bool {
		b, err := os.ReadFile(proc.Root.File(cmd.Process.Pid, "cmdline"))
		return err == nil && strings.HasPrefix(string(b), "x\x00shim\x00")
	})
}

// A path on a command line that only looks like a run's directory leads neither to
// another run nor out of the place of the runs.
func TestAFeignedPathIsNoRunDirectory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 1000").start()
	f.started()
	for _, dir := range []string{
		f.root + "//" + filepath.Base(f.dir), f.root + "/./" + filepath.Base(f.dir), f.root + "/..", f.root + "/.", f.root + "/", f.dir,
	} {
		feign(t, dir)
	}
	plain := filepath.Join(f.root, "gone")
	feign(t, plain)
	if lost, err := sweep.Lost(f.root); err != nil || !slices.Equal(lost, []string{plain}) {
		t.Errorf("Lost: %q, %v", lost, err)
	}
}

// What does not show whether it belongs to a run may: it is not over then. Here a
// user's process hides its environment from the agent of the same user.
func TestSweepDoesNotGuess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(strings.Replace(escape, "own =", "import ctypes; ctypes.CDLL(None).prctl(4, 0)  # not dumpable\n        own =", 1) +
		"while True: time.sleep(1)").startUnprivileged()
	f.started()
	p := f.escaped()
	f.killShim()
	f.removeDirectory()
	sweep := exec.Command(filepath.Join(f.root, "bellows"), "sweep", f.dir, f.order.LockDir)
	sweep.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	out, err := sweep.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not show whether it belongs to the run") {
		t.Errorf("an ordinary user's sweep: %s, %v", out, err)
	}
	if !proc.Alive(p) {
		t.Fatal("the process is gone: this tests nothing")
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil { // root's sees it
		t.Error(err)
	}
	if proc.Alive(p) {
		t.Error("the process lives after root's sweep")
	}
}

// A cgroup that cannot be seen is not an empty one.
func TestACgroupThatCannotBeSeenIsNotEmpty(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	if err := rundir.WriteOrder(f.dir, f.order); err != nil {
		t.Fatal(err)
	}
	self, err := proc.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := run.Process{PID: self.PID, StartTime: self.StartTime + 1, BootID: self.BootID}
	path := filepath.Join(f.dir, rundir.ShimFile)
	if err := durable.WriteJSON(path, rundir.Record{Version: run.ProtocolVersion, Shim: gone, Cgroup: filepath.Join(f.root, "unmounted", "x"), Containment: run.Cgroup2}); err != nil {
		t.Fatal(err)
	}
	if err := sweep.Sweep(f.dir, f.order.LockDir, nil); err == nil || !strings.Contains(err.Error(), "no cgroups are mounted there") {
		t.Errorf("Sweep: %v", err)
	}
	gone.BootID = "another boot" // in which nothing of it can live
	if err := durable.WriteJSON(path, rundir.Record{Version: run.ProtocolVersion, Shim: gone, Cgroup: filepath.Join(f.root, "unmounted", "x"), Containment: run.Cgroup2}); err != nil {
		t.Fatal(err)
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Errorf("after a reboot: %v", err)
	}
}

// Run directories are public: a user whose processes name another's run neither
// holds it up nor has them killed for it. Only where nothing tells the run's owner
// does every user's count.
func TestAnotherUsersMarkIsNone(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	const daemon = 1
	for name, c := range map[string]struct {
		lost   []string // files
		spared bool
	}{
		"by all":        {nil, true},
		"by the record": {[]string{rundir.OrderFile, run.WorkerSocket}, true},
		"by the order":  {[]string{rundir.ShimFile, run.WorkerSocket}, true},
		"by the socket": {[]string{rundir.OrderFile, rundir.ShimFile}, true},
		"by nothing":    {[]string{rundir.OrderFile, rundir.ShimFile, run.WorkerSocket}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "sleep 1000").repeats().ownedBy(daemon, "daemon").start()
			f.started()
			own, strangers := bearing(t, f.dir, daemon), bearing(t, f.dir, ordinary)
			reach, err := sweep.ReachOf(f.dir)
			if err != nil {
				t.Fatal(err)
			}
			f.killShim()
			for _, file := range c.lost {
				if err := os.Remove(filepath.Join(f.dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			if c.spared {
				if err := reach.KillMarked(); err != nil && !errors.Is(err, sweep.ErrNoAnswer) { // another test's, or one that is slow
					t.Error(err)
				}
				f.gone("the owner's process", own)
				own = bearing(t, f.dir, daemon)
			}
			if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
				t.Error(err)
			}
			f.gone("the owner's process", own)
			if proc.Alive(strangers) != c.spared {
				t.Errorf("another user's process lives: %t", !c.spared)
			}
		})
	}
}

// bearing starts a process of a user that names a run directory, as a worker does.
func bearing(t *testing.T, dir string, uid uint32) run.Process {
	t.Helper()
	p, err := proc.Identify(agenttest.Bearing(t, dir, uid))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
