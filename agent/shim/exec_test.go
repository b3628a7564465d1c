package shim

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
)

// frozen freezes a run's cgroup: what is born in it gets no further than its birth,
// like a process whose program lies on a file system that hangs.
func (f *fixture) frozen() (cgroup string) {
	f.t.Helper()
	var rec rundir.Record
	if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
		f.t.Fatal(err)
	}
	file, state := "cgroup.freeze", "1"
	switch rec.Containment {
	case run.Weak:
		f.t.Skip("an exec that hangs is made with a cgroup that is frozen, which takes root")
	case run.Cgroup1:
		file, state = "freezer.state", "FROZEN"
	}
	if err := os.WriteFile(filepath.Join(rec.Cgroup, file), []byte(state), 0); err != nil {
		f.t.Fatal(err)
	}
	return rec.Cgroup
}

// A process that is being executed keeps a thread of its parent's until it is.
// While it hangs, collecting garbage must not wait for that thread with all others
// stopped, and the deadline with them.
func TestTheDeadlineHoldsWhileAnExecHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	f.order.Strict, f.order.Deadline = true, proc.Boottime()+int64(time.Hour)
	path := devicelock.Path(f.order.LockDir, "SIM-0")
	agenttest.Write(t, path, "", 0o600)
	l, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err = unix.Flock(int(l.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	f.start()
	cgroup := f.frozen()
	if err = unix.Flock(int(l.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "a worker's birth", func() bool { return len(contain.Members(cgroup)) > 0 })
	const garbage = 5000 // of some kilobytes each, several times what is collected first
	for i := range int64(garbage) {
		f.push(run.Wish{Deadline: f.order.Deadline + i})
	}
	f.await("all of that to be heard", func(r run.Report) bool { return r.Deadline == f.order.Deadline+garbage-1 })
	lag := lateness(t)
	deadline := proc.Boottime() + int64(200*time.Millisecond)
	f.push(run.Wish{Deadline: deadline})
	r := f.stopped()
	if late := time.Duration(proc.Boottime()-deadline) - lag(); late > fence.Margin || r.Failed == nil || r.Failed.Kind != record.NodeFenced {
		t.Errorf("stopped %v after the deadline, failed %+v", late, r.Failed)
	}
	if _, err = os.Stat(filepath.Join(f.order.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
	f.retire()
}
