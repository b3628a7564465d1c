package shim

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/record"
)

func TestAgentsComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, plain).start()
	before := f.started()
	f.awaitFile("up-0")
	_ = f.conn.Close()
	f.dial()
	after := f.await("the report at the connection's beginning", func(run.Report) bool { return true })
	if len(after.Workers) != 2 || after.Workers[0] != before.Workers[0] || after.Shim != f.shim {
		t.Errorf("workers %v, before %v", after.Workers, before.Workers)
	}
	second, err := Dial(f.dir) // the old agent's and the new one's for a while
	if err != nil {
		t.Fatal(err)
	}
	if r := <-second.Reports(); len(r.Workers) != 2 {
		t.Errorf("second connection: %+v", r)
	}
	if err := second.Push(run.Wish{Halt: terminated()}); err != nil {
		t.Fatal(err)
	}
	f.stopped()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	f.retire()
	if _, open := <-f.conn.Reports(); open {
		t.Error("reports go on although the shim is gone")
	}
}

func TestScanFindsRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100").start()
	f.started()
	agenttest.Write(t, filepath.Join(f.root, "broken", rundir.OrderFile), "{", 0o600)
	runs, unreadable, err := rundir.Scan(f.root)
	if err != nil || len(unreadable) != 1 || unreadable[0].Dir != filepath.Join(f.root, "broken") || unreadable[0].Why == nil {
		t.Errorf("the broken run: %+v, %v", unreadable, err)
	}
	if len(runs) != 1 || runs[0].Dir != f.dir || runs[0].Shim != f.shim || runs[0].Order.World.Job != f.order.World.Job {
		t.Errorf("runs %+v", runs)
	}
	if !proc.Alive(runs[0].Shim) {
		t.Error("its shim is not alive")
	}
	if runs, unreadable, err = rundir.Scan(filepath.Join(f.root, "none")); err != nil || runs != nil || unreadable != nil {
		t.Errorf("a root that is not there: %v, %v", runs, err)
	}
}

func TestARunHasOneShim(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100").start()
	f.started()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Start(t.Context(), exe, f.dir, f.order); err == nil || !strings.Contains(err.Error(), "another shim") {
		t.Fatalf("a second shim: %v", err)
	}
	// Start ends what did not become ready. One that is left alone ends by itself, with its
	// holder, and takes nothing of the run with it.
	f.refusesToHost("another shim")
	if !proc.Alive(f.shim) {
		t.Fatal("the first one is gone")
	}
	if c, err := Dial(f.dir); err != nil {
		t.Error(err)
	} else if err := c.Close(); err != nil {
		t.Error(err)
	}
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// refusesToHost starts a shim for the run that has to refuse. One that hosts it instead
// would wait for an agent, and with it the test, for ever: it is told to end.
func (f *fixture) refusesToHost(why string) {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), agenttest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "shim", "--dir", f.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, unix.SIGTERM) } // to the holder and the shim
	cmd.WaitDelay = agenttest.Patience
	said := &untilReady{cancel: cancel}
	cmd.Stdout, cmd.Stderr = said, said
	if err = cmd.Run(); err == nil || ctx.Err() != nil || !strings.Contains(said.String(), why) {
		f.t.Fatalf("a shim that should refuse (%s): %v, said %s", why, err, said)
	}
}

// untilReady keeps what a shim says, and cancels when that is that it hosts its run.
type untilReady struct {
	strings.Builder
	cancel func()
}

func (u *untilReady) Write(b []byte) (int, error) {
	n, err := u.Builder.Write(b)
	if strings.Contains(u.String(), "shim is ready") {
		u.cancel()
	}
	return n, err
}

func TestAPatientStrictStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "exit 0")
	f.order.Strict = true
	f.start()
	f.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "deadline") })
	f.push(run.Wish{Deadline: proc.Boottime() + int64(time.Minute)})
	if r := f.stopped(); !r.Stopped.Finished {
		t.Errorf("stopped %+v", r.Stopped)
	}
	f.retire()
}

func TestADeadlinePassedBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	f.order.Strict, f.order.Deadline = true, proc.Boottime()-1
	r := f.start().stopped()
	if r.Failed == nil || r.Failed.Kind != record.NodeFenced || r.Workers != nil {
		t.Errorf("failed %+v, workers %v", r.Failed, r.Workers)
	}
}

func TestAnUnknownDeadlineLeavesTheKnownOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100")
	f.order.Strict, f.order.Deadline = true, proc.Boottime()+int64(700*time.Millisecond)
	f.start()
	f.push(run.Wish{})
	if r := f.stopped(); r.Failed == nil || r.Failed.Kind != record.NodeFenced {
		t.Errorf("failed %+v", r.Failed)
	}
}

// The agent gives the node's word only for deadlines that have arrived.
func TestTheReportEchoesTheDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100")
	first := proc.Boottime() + int64(time.Hour)
	f.order.Strict, f.order.Deadline = true, first
	f.start()
	in := func(deadline int64) {
		t.Helper()
		f.await("the deadline that is in force", func(r run.Report) bool { return r.Deadline == deadline })
	}
	if r := f.started(); r.Deadline != first {
		t.Errorf("deadline %d, want the order's %d", r.Deadline, first)
	}
	f.shimWrites("its workers", func(r run.Report) bool { return len(r.Workers) > 0 })
	for _, next := range []int64{first + 1, fence.Never, first + 2} {
		f.push(run.Wish{Deadline: next})
		in(next)
	}
	f.push(run.Wish{}) // changes nothing
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	if r := f.await("held", func(r run.Report) bool { return r.Held != nil }); r.Deadline != first+2 {
		t.Errorf("deadline %d, want %d", r.Deadline, first+2)
	}
	// Renewals are no business of the disk's: what lies there is no newer than what else has happened.
	f.shimWrites("held", func(r run.Report) bool { return r.Held != nil })
	f.push(run.Wish{Deadline: first + 3})
	in(first + 3)
	if r, err := rundir.ReadReport(f.dir); err != nil || r.Deadline == first+3 {
		t.Errorf("deadline %d on disk, %v", r.Deadline, err)
	}
}

func TestLaxShimsIgnoreDeadlines(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 0.5").start()
	f.push(run.Wish{Deadline: proc.Boottime() + 1})
	if r := f.stopped(); r.Failed != nil || !r.Stopped.Finished {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
}

func TestSignalsToTheShim(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100").start()
	f.started()
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGPIPE} {
		if err := syscall.Kill(f.shim.PID, s); err != nil {
			t.Fatal(err)
		}
	}
	// It answers, so it has seen them.
	f.push(run.Wish{})
	if c, err := Dial(f.dir); err != nil {
		t.Fatal(err)
	} else if r := <-c.Reports(); r.Stopped != nil {
		t.Errorf("stopped %+v", r.Stopped)
	}
	if err := syscall.Kill(f.shim.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f.gone("the shim", f.shim)
	r, err := rundir.ReadReport(f.dir)
	if err != nil || r.Stopped == nil || r.Failed != nil {
		t.Errorf("report %+v, %v", r, err)
	}
	f.nothingLeft()
}

func TestWorkersDieWithTheShim(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, stubborn).start()
	r := f.started()
	f.awaitFile("up-0")
	f.killShim()
	f.gone("worker 0", f.worker(r, 0))
	f.gone("worker 1", f.worker(r, 1))
	agenttest.Eventually(t, "the locks are free", func() bool { return len(heldStill(f.order, f.dir)) == 0 })
}

func TestSweepAfterTheShimsDeath(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").start()
	f.started()
	p := f.escaped()
	f.killShim()
	if !proc.Alive(p) {
		t.Fatal("the escaped process is gone already: this tests nothing")
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	if proc.Alive(p) {
		t.Error("the escaped process lives")
	}
	f.nothingLeft()
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// The first thread's end is not the process's: what goes on computes on the
// device although it is shown as a zombie.
func TestHeadlessProcessesAreAlive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(`
import ctypes, os, platform, threading, time
def on():
    while True:
        with open("/proc/self/stat") as stat:
            if stat.read().split(") ")[1][0] == "Z" and not os.path.exists("headless"):
                open("headless", "w").write("yes\n")
        time.sleep(0.01)
threading.Thread(target=on).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # exit, of this thread alone
`).start()
	r := f.started()
	f.awaitFile("headless")
	worker := f.worker(r, 0)
	if !proc.Alive(worker) {
		t.Error("taken for dead")
	}
	if err := syscall.Kill(f.shim.PID, unix.SIGSTOP); err != nil { // no shim that could help
		t.Fatal(err)
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	if proc.Alive(worker) {
		t.Error("lives after the sweep")
	}
	f.nothingLeft()
}

func TestSweepEndsAShimThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, stubborn).start()
	r := f.started()
	if err := syscall.Kill(f.shim.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	if proc.Alive(f.shim) || proc.Alive(f.worker(r, 0)) {
		t.Error("something lives")
	}
	f.nothingLeft()
}

// A shim that was started but has not claimed its run yet finds it swept.
func TestAShimThatComesAfterTheSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	if err := rundir.WriteOrder(f.dir, f.order); err != nil {
		t.Fatal(err)
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	f.refusesToHost("it was swept")
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
	f.nothingLeft()
}

func TestAShimThatSleptPastItsDeadline(t *testing.T) {
	t.Parallel()
	// In this time the shim is told, and stopped: a busy machine may need more.
	for _, within := range []time.Duration{3 * time.Second, 10 * time.Second, 40 * time.Second} {
		if sleepsPastItsDeadline(t, within) {
			return
		}
		t.Logf("the deadline came before the shim could be stopped within %v: this tests nothing", within)
	}
	t.Error("no shim was stopped before its deadline")
}

// sleepsPastItsDeadline is false if the deadline came before the shim was stopped.
func sleepsPastItsDeadline(t *testing.T, within time.Duration) bool {
	t.Helper()
	f := newFixture(t, 1, stubborn)
	f.order.Strict, f.order.Deadline = true, proc.Boottime()+int64(time.Hour)
	r := f.start().started()
	deadline := proc.Boottime() + int64(within)
	f.push(run.Wish{Deadline: deadline})
	f.await("the deadline that is in force", func(r run.Report) bool { return r.Deadline == deadline })
	if err := syscall.Kill(f.shim.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if proc.Boottime() > deadline-int64(200*time.Millisecond) { // a signal to all threads takes a moment
		if err := syscall.Kill(f.shim.PID, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		f.stopped()
		return false
	}
	agenttest.Eventually(t, "the deadline is over", func() bool { return proc.Boottime() > deadline+int64(200*time.Millisecond) })
	if !proc.Alive(f.worker(r, 0)) {
		t.Fatal("the worker is gone already: this tests nothing")
	}
	awake := time.Now()
	if err := syscall.Kill(f.shim.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r = f.stopped()
	if took := time.Since(awake); took > agenttest.Patience/6 || r.Failed == nil || r.Failed.Kind != record.NodeFenced {
		t.Errorf("took %v, failed %+v", took, r.Failed)
	}
	return true
}

func TestSweepOfWhatNeverWas(t *testing.T) {
	t.Parallel()
	if err := sweep.Sweep(filepath.Join(t.TempDir(), "none"), t.TempDir(), nil); err != nil {
		t.Error(err)
	}
}

func TestALockThatIsHeldByOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "exit 0")
	agenttest.Write(t, devicelock.Path(f.order.LockDir, "SIM-1"), `{"job":"other-zzzzzz","generation":7,"run":"/elsewhere","shim":4242}`, 0o644)
	l, err := os.Open(devicelock.Path(f.order.LockDir, "SIM-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := unix.Flock(int(l.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	f.start()
	r := f.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "is held by") })
	for _, w := range []string{"SIM-1.lock", "other-zzzzzz generation 7", "4242", "pid " + strconv.Itoa(os.Getpid())} {
		if !strings.Contains(r.Waiting, w) {
			t.Errorf("waiting for %q, which does not say %q", r.Waiting, w)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := f.stopped(); !r.Stopped.Finished {
		t.Errorf("stopped %+v, failed %+v", r.Stopped, r.Failed)
	}
	f.retire()
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "exit 0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// A program that never says it is ready.
	program(t, filepath.Join(f.root, "mute"), "#!/bin/sh\nexec sleep 100\n")
	if _, err := Start(ctx, filepath.Join(f.root, "mute"), f.dir, f.order); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	program(t, filepath.Join(f.root, "dead"), "#!/bin/sh\nexit 1\n")
	if _, err := Start(t.Context(), filepath.Join(f.root, "dead"), f.dir, f.order); err == nil || !strings.Contains(err.Error(), rundir.LogFile) {
		t.Errorf("Start: %v", err)
	}
}

func TestOnlyItsOwnUserReachesTheShim(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	f := newFixture(t, 1, "sleep 100").start()
	f.started()
	for _, mode := range []os.FileMode{0o600, 0o666} { // the file's rights, then the shim's own look
		if err := os.Chmod(filepath.Join(f.dir, rundir.ControlSocket), mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(10)
try:
    s.connect(sys.argv[1]); data = s.recv(100)
except (PermissionError, ConnectionResetError, BrokenPipeError): data = b""
print(len(data))`, filepath.Join(f.dir, rundir.ControlSocket))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "0\n" {
			t.Errorf("mode %o: got %q, %v", mode, out, err)
		}
	}
}
