package host

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/record"
)

// wire leads to etcd as long as it is not cut: then bytes wait, as they do where a
// network drops them.
type wire struct {
	listener net.Listener
	wg       sync.WaitGroup
	cut      sync.RWMutex // locked = cut
	waiting  atomic.Int32 // passages that have something to pass on

	mu    sync.Mutex
	conns []net.Conn
}

func (f *fixture) wire() *wire {
	f.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	w := &wire{listener: l}
	w.wg.Go(func() { w.accept(f.endpoint) })
	f.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

func (w *wire) accept(to string) {
	for {
		in, err := w.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, in, out)
		w.mu.Unlock()
		w.wg.Go(func() { w.pass(in, out) })
		w.wg.Go(func() { w.pass(out, in) })
	}
}

func (w *wire) pass(from, to net.Conn) {
	defer to.Close()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		w.waiting.Add(1)
		w.cut.RLock()
		w.waiting.Add(-1)
		_, errWrite := to.Write(b[:n])
		w.cut.RUnlock()
		if err != nil || errWrite != nil {
			return
		}
	}
}

// hold locks until release is called, or the test ends.
func (f *fixture) hold(m *sync.RWMutex) (release func()) {
	m.Lock()
	release = sync.OnceFunc(m.Unlock)
	f.Cleanup(release)
	return release
}

// stop stops the shim of a run, and the process that holds it.
func (f *fixture) stop(r rundir.Run) {
	f.Helper()
	f.signal(r, syscall.SIGSTOP)
	shim, err := proc.ReadStat(r.Shim.PID)
	if err != nil {
		f.Fatal(err)
	}
	line, err := os.ReadFile(proc.Root.File(shim.PPID, "cmdline"))
	if err != nil || !strings.Contains(string(line), "\x00shim\x00") { // never the agent, which the test itself is
		f.Fatalf("process %d is no holder of a shim: %q, %v", shim.PPID, line, err)
	}
	if err := syscall.Kill(shim.PPID, syscall.SIGSTOP); err != nil {
		f.Fatal(err)
	}
}

// A node is cut off from etcd with its agent alive and its shim stopped, which
// nothing but the agent can make up for. No other node has a reason to wait.
func TestTheAgentKillsWhereItsShimDoesNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n2"))
	w := f.wire()
	s := f.settings("n1")
	s.Etcd = w.listener.Addr().String()
	f.agent(s)
	token := f.alive("n1")
	j := f.job("long", sleeper(), map[string]int{"n1": 2}, "n1")
	f.start(j)
	workers := ack[record.Started](f, j, "n1", record.AckStarted).Workers
	f.until("the node's word", func() bool { return f.fenced("n1", token) })
	run := f.run(s, j)
	f.stop(run)
	heal := f.hold(&w.cut)
	live := func() bool { return lives(workers[0]) || lives(workers[1]) }
	f.until("the workers to be killed or the lease to end", func() bool { return !live() || f.absent(record.AliveKey("n1")) })
	if live() {
		t.Error("the lease has ended before the workers")
	}
	f.until("the shim's end", func() bool { return !proc.Alive(run.Shim) })
	f.until("the lease's end", func() bool { return f.absent(record.AliveKey("n1")) })

	heal()
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.NodeFenced {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	f.until("an empty run directory", func() bool { return f.empty(s) })
	if now := f.alive("n1"); now == token {
		t.Error("it came back with the token of the life that was lost")
	}
}

// stuckLog takes nothing any more once it is stuck.
type stuckLog struct {
	agenttest.Log
	stuck sync.RWMutex
}

// Write implements io.Writer.
func (l *stuckLog) Write(p []byte) (int, error) {
	l.stuck.RLock()
	defer l.stuck.RUnlock()
	return l.Log.Write(p)
}

// The agent's owner hangs, here in its log, and nothing of the run's directory can
// be read any more. The workers of a stopped shim die all the same, as no process
// moves their deadline.
func TestTheAgentKillsWithItsOwnerAndItsDiskStuck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n2"))
	s := f.settings("n1")
	log := &stuckLog{}
	f.agentTo(s, log)
	token := f.alive("n1")
	j := f.job("long", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	f.until("the node's word", func() bool { return f.fenced("n1", token) })
	run := f.run(s, j)
	f.stop(run)
	var thaws []func()
	for _, name := range []string{"order.json", "shim.json", "report.json"} {
		thaws = append(thaws, f.hides(filepath.Join(run.Dir, name)))
	}
	release := f.hold(&log.stuck)
	k := f.job("other", sleeper(), map[string]int{"n1": 2}, "n1") // whose start is logged
	k.Members[0].Devices = k.Members[0].Devices[1:]
	f.start(k)
	f.until("the worker's end", func() bool { return !lives(worker) })
	f.until("the shim's end", func() bool { return !proc.Alive(run.Shim) })
	if !f.absent(record.AckKey("n1", k.Job, 1, record.AckStarted)) {
		t.Fatal("the agent's owner did not hang: this tests nothing")
	}

	for _, thaw := range thaws {
		thaw()
	}
	release()
	ack[record.Failed](f, j, "n1", record.AckFailed)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
}

// hides puts a pipe in a file's place, which who opens waits at, until thaw is called.
func (f *fixture) hides(path string) (thaw func()) {
	f.Helper()
	if err := errors.Join(os.Rename(path, path+".kept"), unix.Mkfifo(path, 0o600)); err != nil {
		f.Fatal(err)
	}
	var once sync.Once
	thaw = func() {
		once.Do(func() {
			if fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil { // its opener goes on
				defer unix.Close(fd) //nolint:errcheck // nothing was written to it
			}
			if err := os.Rename(path+".kept", path); err != nil {
				f.Error(err)
			}
		})
	}
	f.Cleanup(thaw)
	return thaw
}

// A node has its lease, but one of its shims does not do what it was told.
func TestAShimThatDoesNotHeedIsSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("long", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	f.stop(f.run(s, j))
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.NodeFenced || !strings.Contains(failed.Reason, "when it was told to") {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if lives(worker) {
		t.Error("the worker lives")
	}
	f.until("an empty run directory", func() bool { return f.empty(s) })
}
