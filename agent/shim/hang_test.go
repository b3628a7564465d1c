package shim

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/record"
)

// hangs puts a pipe in a file's place: who opens it waits for the other end, and
// who has it open already waits once it is full.
func (f *fixture) hangs(path string) (thaw func()) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		f.t.Fatal(err)
	}
	var ends []int
	thaw = func() {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // its opener goes on
		if err == nil {
			ends = append(ends, fd)
		}
		_ = os.Remove(path)
	}
	f.t.Cleanup(func() {
		thaw()
		for _, fd := range ends {
			_ = unix.Close(fd)
		}
	})
	return thaw
}

// pipe is a shim's log that is written into a pipe, of which the test has both ends.
type pipe struct {
	*testing.T
	fd int
}

func (f *fixture) pipedLog() pipe {
	f.t.Helper()
	path := filepath.Join(f.dir, rundir.LogFile)
	f.hangs(path)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = unix.Close(fd) })
	return pipe{f.t, fd}
}

// fill writes until the pipe takes no more.
func (p pipe) fill() {
	p.Helper()
	for size := 4096; size > 0; {
		if _, err := unix.Write(p.fd, make([]byte, size)); errors.Is(err, unix.EAGAIN) {
			size /= 2
		} else if err != nil {
			p.Fatal(err)
		}
	}
}

// empty reads what is there.
func (p pipe) empty() string {
	var all []byte
	b := make([]byte, 1<<16)
	for {
		n, err := unix.Read(p.fd, b)
		if n <= 0 || err != nil {
			return string(all)
		}
		all = append(all, b[:n]...)
	}
}

// silent opens connections to a socket, and neither says nor reads anything.
func (f *fixture) silent(name string, count int) {
	f.t.Helper()
	for range count {
		c, err := net.Dial("unix", filepath.Join(f.dir, name))
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = c.Close() })
	}
}

// The shim's log, its reports, the locks, its rank's log and all who are connected
// to it hang at once. Its workers die by the deadline, and it still answers.
func TestTheDeadlineHoldsWhateverHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "while :; do echo flood; done")
	log := f.pipedLog()
	f.hangs(filepath.Join(f.order.LogDir, "rank-0.log"))
	f.order.Strict, f.order.Deadline = true, proc.Boottime()+int64(time.Hour)
	worker := f.worker(f.start().started(), 0)
	f.shimWrites("its workers", func(r run.Report) bool { return len(r.Workers) > 0 })

	f.hangs(filepath.Join(f.dir, rundir.ReportFile+".spare"))
	thaw := f.hangs(devicelock.Path(f.order.LockDir, "SIM-0"))
	f.silent(rundir.ControlSocket, maxAgents/2)
	f.silent(run.WorkerSocket, spareLinks)
	log.fill()
	lag := lateness(t)
	deadline := proc.Boottime() + int64(200*time.Millisecond)
	f.push(run.Wish{Deadline: deadline})
	f.gone("the worker", worker)
	if late := time.Duration(proc.Boottime()-deadline) - lag(); late > fence.Margin {
		t.Errorf("dead %v after the deadline, and so after the lease", late)
	}

	// Nothing may be said of locks that cannot be looked at. The rest goes on.
	_ = f.conn.Close()
	r := f.dial().await("what happened", func(r run.Report) bool { return r.Failed != nil })
	if r.Failed.Kind != record.NodeFenced || r.Stopped != nil {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
	thaw()
	f.stopped()
	log.empty()
}

// A halt's end and a peer's failure come the same way as the deadline.
func TestAKillWaitsForNoLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, stubborn)
	log := f.pipedLog()
	worker := f.worker(f.start().started(), 0)
	f.awaitFile("up-0")
	log.fill()
	f.push(run.Wish{Halt: halt(true, 200*time.Millisecond)}) // tells of itself in the log, like its end
	f.gone("the worker", worker)
	if r := f.stopped(); r.Held == nil || r.Stopped.Finished {
		t.Errorf("held %+v, stopped %+v", r.Held, r.Stopped)
	}
	text := log.empty()
	f.retire()
	if text += log.empty(); !strings.Contains(text, "killing the workers") {
		t.Errorf("the log has lost why the workers were killed: %q", text)
	}
}

// hides is hangs for a file that is needed again afterwards.
func (f *fixture) hides(path string) (thaw func()) {
	f.t.Helper()
	if err := os.Rename(path, path+".kept"); err != nil {
		f.t.Fatal(err)
	}
	end := f.hangs(path)
	return func() {
		end()
		if err := os.Rename(path+".kept", path); err != nil {
			f.t.Error(err)
		}
	}
}
