package shim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/sdk"
)

// The test binary is also the shim that the tests start, and the small programs
// that the workers in them are.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "shim" && os.Args[2] == "--dir" {
		// What a process does must not depend on how busy the machine is: sdk/tests has that.
		warm.AtOnce = 4
		sdk.Early = bytes.Replace(sdk.Early, []byte("\nSHORT_S = 3\n"), []byte("\nSHORT_S = 1000\n"), 1)
		if err := Serve(context.Background(), os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "internal" && os.Args[2] == "look" {
		if err := precheck.Answer(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == "sweep" { // see TestSweepDoesNotGuess
		if err := sweep.Sweep(os.Args[2], os.Args[3], nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	status := m.Run()
	if raceless.dir != "" {
		_ = os.RemoveAll(raceless.dir)
	}
	os.Exit(status)
}

// raceless is the program without the race detector that repeats starts.
var raceless struct {
	once sync.Once
	dir  string
	err  error
}

// fixture is one run: its places, its order, and once started its shim.
type fixture struct {
	t     *testing.T
	root  string
	dir   string
	order run.Order
	shim  run.Process
	conn  *Conn
	last  run.Report
	// program is what start starts as a shim; empty = this test binary.
	program string
	// unmount are file systems that the test has mounted below root.
	unmount []string
}

// newFixture prepares a run of a shell script on that many devices.
func newFixture(t *testing.T, ranks int, script string) *fixture {
	t.Helper()
	root, err := os.MkdirTemp("", "shim") //nolint:usetesting // t.TempDir's long path does not fit into a socket's address
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, root: root, dir: filepath.Join(root, "run")}
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	devices := make([]cluster.DeviceID, ranks)
	for i := range devices {
		devices[i] = cluster.DeviceID(fmt.Sprintf("SIM-%d", i))
	}
	f.order = run.Order{
		Spec:    cluster.Spec{Command: []string{"/bin/sh", "-c", script}, Workdir: work, Env: map[string]string{"PATH": "/usr/bin:/bin"}},
		Version: run.ProtocolVersion, Cluster: "test", Node: "n1",
		World: cluster.World{
			Job: "train-abcdef", Generation: 3, BatchSize: 64,
			Members: []cluster.Member{{Node: "n1", Devices: devices}},
			Master:  cluster.Endpoint{Host: "127.0.0.1", Port: freePort(t)},
		},
		Owner:      cluster.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), User: "root"},
		Checkpoint: filepath.Join(root, "ckpt", "train-abcdef", "g00000003"),
		LogDir:     filepath.Join(root, "logs"), LogMaxBytes: 1 << 20, LockDir: filepath.Join(root, "locks"),
	}
	t.Cleanup(f.cleanup)
	return f
}

// cleanup leaves no process behind, whatever the test has done.
func (f *fixture) cleanup() {
	if f.conn != nil {
		_ = f.conn.Close()
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		f.t.Errorf("clean up: %v", err)
	}
	if f.t.Failed() {
		b, _ := os.ReadFile(filepath.Join(f.dir, rundir.LogFile))
		f.t.Logf("shim.log:\n%s\nlast report: %+v", b, f.last)
	}
	for _, dir := range f.unmount {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			f.t.Errorf("clean up: %v", err)
		}
	}
	if err := os.RemoveAll(f.root); err != nil {
		f.t.Errorf("clean up: %v", err)
	}
}

// freePort finds a port that stays free: below those that the system hands out
// to processes that ask for any port.
func freePort(t *testing.T) int {
	const first, count = 12_000, 18_000
	for range 100 {
		port := first + rand.IntN(count)
		if l, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			if err = l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// repeats has the run's shim be a program without the race detector, if tests with the detector are to be short: its
// start takes a tenth of the processor time. It is for cases whose shim does mostly what shims of other cases do, or is
// only there to be killed. All other shims are this test binary.
func (f *fixture) repeats() *fixture {
	f.t.Helper()
	if !raceEnabled || !testing.Short() {
		return f
	}
	raceless.once.Do(func() {
		if raceless.dir, raceless.err = os.MkdirTemp("", "shim-program"); raceless.err != nil { // it outlives this test
			return
		}
		build := exec.Command("go", "build", "-race=false", "-o", filepath.Join(raceless.dir, "bellows"), "./testdata/bellows")
		if out, err := build.CombinedOutput(); err != nil {
			raceless.err = fmt.Errorf("build a shim without the race detector: %w\n%s", err, out)
			return
		}
		raceless.err = os.Chmod(raceless.dir, 0o755) //nolint:gosec // other users run it, too
	})
	if raceless.err != nil {
		f.t.Fatal(raceless.err)
	}
	f.program = filepath.Join(raceless.dir, "bellows")
	return f
}

func (f *fixture) start() *fixture {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	f.shim, err = Start(f.t.Context(), cmp.Or(f.program, exe), f.dir, f.order)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.dial()
}

func (f *fixture) dial() *fixture {
	f.t.Helper()
	var err error
	if f.conn, err = Dial(f.dir); err != nil {
		f.t.Fatal(err)
	}
	return f
}

func (f *fixture) push(w run.Wish) {
	f.t.Helper()
	if err := f.conn.Push(w); err != nil {
		f.t.Fatal(err)
	}
}

// await waits for a report of which ok is true.
func (f *fixture) await(what string, ok func(run.Report) bool) run.Report {
	f.t.Helper()
	end := time.After(agenttest.Patience)
	for {
		select {
		case r, open := <-f.conn.Reports():
			if !open {
				f.t.Fatalf("the shim hung up before: %s", what)
			}
			f.last = r
			if ok(r) {
				return r
			}
		case <-end:
			f.t.Fatalf("never seen: %s", what)
		}
	}
}

func (f *fixture) started() run.Report {
	f.t.Helper()
	return f.await("workers executed", func(r run.Report) bool { return r.Workers != nil })
}

func (f *fixture) stopped() run.Report {
	f.t.Helper()
	if f.last.Stopped != nil { // seen already
		return f.last
	}
	return f.await("stopped", func(r run.Report) bool { return r.Stopped != nil })
}

// retire ends the shim and demands that it leaves nothing behind.
func (f *fixture) retire() {
	f.t.Helper()
	f.push(run.Wish{Retire: true})
	f.left()
}

// left waits until a shim that was told to retire is gone, and demands that nothing is left of it.
func (f *fixture) left() {
	f.t.Helper()
	f.gone("the shim", f.shim)
	agenttest.Eventually(f.t, "the holder is gone", func() bool { return len(agenttest.Hosting(f.t, f.dir)) == 0 })
	for _, name := range []string{rundir.ControlSocket, run.WorkerSocket} {
		if _, err := os.Stat(filepath.Join(f.dir, name)); !errors.Is(err, os.ErrNotExist) {
			f.t.Errorf("%s is left: %v", name, err)
		}
	}
	f.nothingLeft()
}

// holder is the process that holds the shim.
func (f *fixture) holder() run.Process {
	f.t.Helper()
	s, err := proc.ReadStat(f.shim.PID)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := proc.Identify(s.PPID)
	if err != nil || !slices.Contains(agenttest.Hosting(f.t, f.dir), p.PID) {
		f.t.Fatalf("process %d does not hold the shim: %v", s.PPID, err)
	}
	return p
}

// killShim kills the shim, and its holder before that, so that only a sweep ends
// what they leave.
func (f *fixture) killShim() {
	f.t.Helper()
	for _, p := range []run.Process{f.holder(), f.shim} {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
			f.t.Fatal(err)
		}
		f.gone("shim or holder", p)
	}
}

// nothingLeft is I12: no process, no cgroup, no lock.
func (f *fixture) nothingLeft() {
	f.t.Helper()
	if left := agenttest.Named(f.t, f.dir); len(left) > 0 {
		f.t.Errorf("left behind: %v", left)
	}
	if held := heldStill(f.order, f.dir); len(held) > 0 {
		f.t.Errorf("locks are held: %v", held)
	}
	var rec rundir.Record
	if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
		f.t.Error(err)
	}
	if rec.Cgroup != "" {
		if _, err := os.Stat(rec.Cgroup); !errors.Is(err, os.ErrNotExist) {
			f.t.Errorf("cgroup is left: %v", err)
		}
	}
}

func (f *fixture) gone(what string, p run.Process) {
	f.t.Helper()
	agenttest.Eventually(f.t, what+" is gone", func() bool { return !proc.Alive(p) })
}

// lateness measures how much later than it asked for this process is woken, until
// the test ends: the most so far, twice, for the shim's process has that to bear too.
// What must happen by a deadline happens later by so much on a machine that is too busy.
func lateness(t *testing.T) func() time.Duration {
	t.Helper()
	var worst atomic.Int64
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		const beat = 5 * time.Millisecond
		for {
			began := time.Now()
			select {
			case <-ended:
				return
			case <-time.After(beat):
				worst.Store(max(worst.Load(), int64(time.Since(began)-beat)))
			}
		}
	})
	t.Cleanup(func() { close(ended); wg.Wait() })
	return func() time.Duration { return 2 * time.Duration(worst.Load()) }
}

func (f *fixture) worker(r run.Report, i int) run.Process {
	return run.Process{PID: r.Workers[i].PID, StartTime: r.Workers[i].StartTime, BootID: f.shim.BootID}
}

func (f *fixture) read(path ...string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{f.root}, path...)...))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

// awaitFile waits for a file that a worker writes in its workdir, with content.
func (f *fixture) awaitFile(name string) string {
	f.t.Helper()
	var b []byte
	agenttest.Eventually(f.t, "file "+name, func() bool {
		b, _ = os.ReadFile(filepath.Join(f.order.Workdir, name))
		return strings.HasSuffix(string(b), "\n")
	})
	return string(b)
}

func halt(save bool, within time.Duration, stopAfter ...int64) *record.Halt {
	h := &record.Halt{Why: reason.Said("rescale"), Save: save, At: time.Now(), Deadline: time.Now().Add(within)}
	if len(stopAfter) > 0 {
		h.StopAfter = &stopAfter[0]
	}
	return h
}

// terminated is the leader's word to plain scripts, once all nodes have answered its halt.
func terminated() *record.Halt {
	h := halt(true, time.Minute)
	h.Terminate = true
	return h
}

func TestRunsToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "echo hello from $RANK; echo problem >&2")
	begun := time.Now()
	f.start()
	took := time.Since(begun)
	r := f.stopped()
	t.Logf("Start returned after %v, first exec after %v", took, r.ExecedAt.Sub(begun))
	if !r.Stopped.Finished || len(r.Stopped.Exits) != 2 || r.Failed != nil || len(r.Leftover) > 0 || !r.Stopped.SignalledAt.IsZero() {
		t.Errorf("report %+v, stopped %+v", r, r.Stopped)
	}
	if got := f.read("logs", "rank-1.log"); got != "hello from 1\nproblem\n" {
		t.Errorf("log of rank 1: %q", got)
	}
	f.retire()
	onDisk, err := rundir.ReadReport(f.dir)
	if err != nil || onDisk.Stopped == nil || !onDisk.Stopped.Finished {
		t.Errorf("report on disk %+v, %v", onDisk, err)
	}
}

func TestDeadlineKills(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "trap '' TERM; while :; do sleep 0.1; done")
	f.order.Strict = true
	f.start()
	f.push(run.Wish{Deadline: proc.Boottime() + int64(time.Hour)})
	worker := f.worker(f.started(), 0)
	lag := lateness(t)
	deadline := proc.Boottime() + int64(300*time.Millisecond)
	f.push(run.Wish{Deadline: deadline})
	_ = f.conn.Close() // no agent is there to help
	f.gone("the worker", worker)
	late := time.Duration(proc.Boottime()-deadline) - lag()
	f.shimWrites("stopped", func(r run.Report) bool { return r.Stopped != nil })
	r := f.last
	if r.Failed == nil || r.Failed.Kind != record.NodeFenced || r.Stopped.Finished {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
	if late+lag() < 0 || late > fence.Margin-time.Second {
		t.Errorf("died %v after the deadline", late)
	} else {
		t.Logf("dead %v after the deadline", late)
	}
	f.dial().retire()
}

// shimWrites waits for the report on disk.
func (f *fixture) shimWrites(what string, ok func(run.Report) bool) {
	f.t.Helper()
	agenttest.Eventually(f.t, what+", on disk", func() bool {
		r, err := rundir.ReadReport(f.dir)
		f.last = r
		return err == nil && ok(r)
	})
}

// script has the workers run a shell script.
func (f *fixture) script(text string) *fixture {
	f.order.Command = []string{"/bin/sh", "-c", text}
	return f
}

// sweepPatiently is Sweep, again and again while what it has killed takes longer to end than it
// waits, as on a machine with too much to do.
func sweepPatiently(dir, lockDir string, owner *cluster.Owner) error {
	err := sweep.Sweep(dir, lockDir, owner)
	for end := time.Now().Add(agenttest.Patience); err != nil && strings.Contains(err.Error(), "UNKILLABLE") && time.Now().Before(end); {
		err = sweep.Sweep(dir, lockDir, owner)
	}
	return err
}

// heldStill names the locks of a run that it, or anybody in its name, still holds.
func heldStill(o run.Order, run string) (held []string) {
	member, _, _ := o.World.Member(o.Node)
	l := devicelock.Of(o.LockDir, member.Devices, run)
	if !o.Planned() {
		l, _ = devicelock.All(o.LockDir, run) // a folder that cannot be read has none
	}
	for _, path := range l.Paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		var was devicelock.Claim
		_ = json.NewDecoder(f).Decode(&was)
		if errors.Is(err, unix.EWOULDBLOCK) && (was.Run == "" || was.Run == run) {
			held = append(held, path+": "+proc.Names(proc.Openers(path)))
		}
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // a process that is just being started has a copy
		_ = f.Close()
	}
	return held
}
