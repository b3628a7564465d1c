package shim

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
)

// A stopped shim does nothing, and nothing of the disk can be read any more: who
// has its reach in memory kills all the same, and the shim does not come back.
func TestReachKillsWithoutShimAndDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "").python(escape + "while True: time.sleep(1)").start()
	r := f.started()
	helper := f.escaped()
	reach, err := sweep.ReachOf(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err = syscall.Kill(f.shim.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var thaws []func()
	for _, name := range []string{rundir.OrderFile, rundir.ShimFile, rundir.ReportFile} {
		thaws = append(thaws, f.hides(filepath.Join(f.dir, name)))
	}
	thaws = append(thaws, f.hides(devicelock.Path(f.order.LockDir, "SIM-0")))
	if err = reach.Kill(r.Workers, false); err != nil {
		t.Error(err)
	}
	f.gone("the shim", f.shim)
	f.gone("worker 0", f.worker(r, 0))
	f.gone("worker 1", f.worker(r, 1))
	f.gone("what a worker has started", helper)
	for _, thaw := range thaws {
		thaw()
	}
	if err = sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Error(err)
	}
	f.nothingLeft()
}

func TestReachMaySpareTheShim(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, stubborn).start()
	r := f.started()
	reach, err := sweep.ReachOf(f.dir)
	if err == nil {
		err = reach.Kill(r.Workers, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r = f.stopped(); len(r.Stopped.Exits) != 1 || r.Stopped.Exits[0].Signal != int(unix.SIGKILL) {
		t.Errorf("stopped %+v", r.Stopped)
	}
	f.retire()
}

// In weak containment what has left its parent descends from the shim alone, and
// once that is dead only its environment tells of it.
func TestReachOfAWeakContainment(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").startUnprivileged()
	r := f.started()
	helper := f.escaped()
	reach, err := sweep.ReachOf(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err = reach.Kill(r.Workers, false); err != nil {
		t.Error(err)
	}
	f.gone("the shim", f.shim)
	f.gone("the worker", f.worker(r, 0))
	f.gone("what it has started", helper)
	f.nothingLeft()
}

func TestReachOfWhatOnlyItsEnvironmentTells(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").startUnprivileged()
	worker := f.worker(f.started(), 0)
	helper := f.escaped()
	reach, err := sweep.ReachOf(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	f.killShim()
	f.gone("the worker, which dies with the shim", worker)
	if !proc.Alive(helper) {
		t.Fatal("the helper is gone already: this tests nothing")
	}
	if err = reach.KillMarked(); err != nil && !errors.Is(err, sweep.ErrNoAnswer) { // another test's, or one that is slow
		t.Error(err)
	}
	f.gone("the helper", helper)
	f.nothingLeft()
}
