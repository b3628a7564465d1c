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

	"github.com/bellows-ml/bellows/agent/run"
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
func (f *fixture) recorded() runRecord {
	f.t.Helper()
	rec, err := readRecord(f.dir)
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
	for _, kind := range append(kinds(), Weak) {
		for _, orphaned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s orphaned=%t", kind, orphaned), func(t *testing.T) {
				t.Parallel()
				if kind != Weak {
					needsKind(t, kind)
				}
				f := newFixture(t, 1, "").repeats().python(bare)
				if kind == Weak && orphaned { // then the mark is all there is to go by
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
				if Alive(p) || Alive(f.shim) {
					t.Errorf("after the sweep the daemon lives: %t, the shim: %t", Alive(p), Alive(f.shim))
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
	for _, file := range []string{orderFile, shimFile, reportFile} {
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
				runs, unreadable, err := Scan(f.root)
				adopted := len(runs) == 1 && len(unreadable) == 0 && (runs[0].Shim == f.shim || file == shimFile && name == "gone")
				given := len(runs) == 0 && len(unreadable) == 1 && unreadable[0].Dir == f.dir
				if err != nil || adopted == given {
					t.Errorf("scan: %+v, %+v, %v", runs, unreadable, err)
				}
				if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
					t.Fatal(err)
				}
				if Alive(p) || Alive(f.shim) {
					t.Errorf("after the sweep the daemon lives: %t, the shim: %t", Alive(p), Alive(f.shim))
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
			if lost, err := Lost(f.root); err != nil || !slices.Equal(lost, []string{f.dir}) {
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
	write(t, filepath.Join(cmd.Dir, "shim"), "while :; do sleep 1; done", 0o600)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, "the command line", func() bool {
		b, err := os.ReadFile(proc.file(cmd.Process.Pid, "cmdline"))
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
	if lost, err := Lost(f.root); err != nil || !slices.Equal(lost, []string{plain}) {
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
	if !Alive(p) {
		t.Fatal("the process is gone: this tests nothing")
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil { // root's sees it
		t.Error(err)
	}
	if Alive(p) {
		t.Error("the process lives after root's sweep")
	}
}

// A cgroup that cannot be seen is not an empty one.
func TestACgroupThatCannotBeSeenIsNotEmpty(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	if err := writeOrder(f.dir, f.order); err != nil {
		t.Fatal(err)
	}
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := run.Process{PID: self.PID, StartTime: self.StartTime + 1, BootID: self.BootID}
	path := filepath.Join(f.dir, shimFile)
	if err := writeDurable(path, runRecord{Version: run.ProtocolVersion, Shim: gone, Cgroup: filepath.Join(f.root, "unmounted", "x"), Containment: Cgroup2}); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(f.dir, f.order.LockDir, nil); err == nil || !strings.Contains(err.Error(), "no cgroups are mounted there") {
		t.Errorf("Sweep: %v", err)
	}
	gone.BootID = "another boot" // in which nothing of it can live
	if err := writeDurable(path, runRecord{Version: run.ProtocolVersion, Shim: gone, Cgroup: filepath.Join(f.root, "unmounted", "x"), Containment: Cgroup2}); err != nil {
		t.Fatal(err)
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Errorf("after a reboot: %v", err)
	}
}

// A job's name does not make its cgroup look like another run's.
func TestNamesOfGroupsTellTheRun(t *testing.T) {
	const dir = "/run/bellows/j-12345678-g1"
	own, other := nameOf(dir), nameOf("/run/bellows/k-12345678-g1")
	for name, want := range map[string]bool{
		"bellows-j-g1-" + own + "-4242":                                   true,
		"bellows-j-1-" + own + "-abcdef.scope":                            true,
		"bellows-with-dashes-g12-" + own + "-1":                           true,
		"bellows-j-" + own + "-1-g1-" + other + "-7":                      false,
		"bellows-j-g1-" + own:                                             false,
		"other-j-g1-" + own + "-4242":                                     false,
		"bellows-j-" + own + "-g1-" + other + "-abcdef.scope":             false,
		"bellows-" + own + "-4242":                                        false,
		cgroupName(run.Order{}, dir):                                      true,
		shimCommand(run.Order{Scope: true}, "x", dir)[4][len("--unit="):]: true,
	} {
		if (runNamed(name) == nameOf(dir)) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

// bearing starts a user's process, in no containment, whose environment names the
// run as a worker's does.
func (f *fixture) bearing(uid uint32) run.Process {
	f.t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{socketVariable + "=" + filepath.Join(f.dir, workerSocket)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// Run directories are public: a user whose processes name another's run neither
// holds it up nor has them killed for it. Only where nothing tells the run's owner
// does every user's count.
func TestAnotherUsersMarkIsNone(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	const daemon = 1
	for name, c := range map[string]struct {
		lost   []string // files
		spared bool
	}{
		"by all":        {nil, true},
		"by the record": {[]string{orderFile, workerSocket}, true},
		"by the order":  {[]string{shimFile, workerSocket}, true},
		"by the socket": {[]string{orderFile, shimFile}, true},
		"by nothing":    {[]string{orderFile, shimFile, workerSocket}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "sleep 1000").repeats().ownedBy(daemon, "daemon").start()
			f.started()
			own, strangers := f.bearing(daemon), f.bearing(ordinary)
			reach, err := ReachOf(f.dir)
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
				if err := reach.KillMarked(); err != nil && !errors.Is(err, errNoAnswer) { // another test's, or one that is slow
					t.Error(err)
				}
				f.gone("the owner's process", own)
				own = f.bearing(daemon)
			}
			if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
				t.Error(err)
			}
			f.gone("the owner's process", own)
			if Alive(strangers) != c.spared {
				t.Errorf("another user's process lives: %t", !c.spared)
			}
		})
	}
}

// Users that have cgroups to themselves can give them any name: one with a run's
// name neither holds up its sweep nor proves that the run was contained.
func TestAUsersCgroupIsNotTheRuns(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	f := newFixture(t, 1, "exit 0")
	p := f.bearing(ordinary)
	mounts, err := cgroupMounts()
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, m := range mounts {
		for _, name := range []string{"bellows-x-g1-" + nameOf(f.dir) + "-1", "bellows-x-1-" + nameOf(f.dir) + "-1" + scopeSuffix} {
			dir := filepath.Join(m.dir, name)
			if os.Mkdir(dir, 0o755) != nil {
				continue // not every one may be written to
			}
			t.Cleanup(func() { eventually(t, "the group is empty", func() bool { return unix.Rmdir(dir) == nil }) })
			if err = os.Chown(dir, ordinary, ordinary); err != nil {
				t.Fatal(err)
			}
			_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(itoa(p.PID)), 0) // a cpuset takes none so far
			made++
		}
	}
	if made == 0 {
		t.Skip("a group of a user can only be made where cgroups may be written to")
	}
	s := &sweeper{dir: f.dir}
	if _, err := s.left(); err != nil {
		t.Fatal(err)
	}
	if s.contained || len(s.groups)+len(s.scopes)+len(s.limits) > 0 {
		t.Errorf("contained %t, groups %v, scopes %v, limits %v", s.contained, s.groups, s.scopes, s.limits)
	}
	t.Cleanup(func() { _ = unix.Kill(p.PID, unix.SIGKILL) }) // before the groups are removed
	f.order.Owner.UID = 1
	if err := writeOrder(f.dir, f.order); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(f.dir, f.order.LockDir, nil); err != nil || !Alive(p) {
		t.Errorf("Sweep: %v; the user's process lives: %t", err, Alive(p))
	}
}
