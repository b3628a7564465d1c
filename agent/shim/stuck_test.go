package shim

import (
	"errors"
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
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
)

// A file system that hangs, played by a freezer: the process that looks at it does
// not even end when it is killed.
func TestPreparationsThatHangDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	_, f := pair(t, "exit 0")
	f.ownedBy(1, "daemon").start()
	f.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "checkpoint_dir") })
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	looks := proc.FamilyOf(all).Descendants(map[int]bool{f.shim.PID: true})
	if len(looks) != 1 {
		t.Fatalf("the shim's processes are %v, want the one that looks", looks)
	}
	thaw := f.freeze(run.Process{PID: looks[0].PID})
	f.push(run.Wish{Kill: "test"})
	if r := f.stopped(); r.Unkillable != nil || r.Workers != nil || r.Failed != nil { // as it would be had it waited
		t.Errorf("report %+v", r)
	}
	holder := f.holder()
	f.push(run.Wish{Retire: true})
	f.gone("the shim", f.shim)
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	f.gone("the holder, which waits for the process", holder)
	f.nothingLeft()
	agenttest.Eventually(t, "the process that looked is gone", func() bool {
		now, err := proc.ReadStat(looks[0].PID)
		return err != nil || now.Start != looks[0].Start || !now.Lives()
	})
}

// testMachine is a shim of so many workers that are about to be executed.
func testMachine(t *testing.T, workers int) *machine {
	t.Helper()
	alarm, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(alarm.close)
	order := run.Order{Node: "n1", Checkpoint: "/ck"}
	order.World.Members = []cluster.Member{{Node: "n1"}}
	for i := range workers {
		order.World.Members[0].Devices = append(order.World.Members[0].Devices, cluster.DeviceID(strconv.Itoa(i)))
	}
	m := assemble(&shared{order: order, containment: &contain.Containment{}, alarm: alarm, cancel: func() {}, state: run.New(order, run.Process{}, run.Weak)})
	m.bind(order)
	m.facts.Binding.Done, m.facts.Node.Done = true, true
	for !m.state.Executing() {
		m.state.Step(&m.facts)
	}
	return m
}

// freeze makes a process unkillable until thaw is called.
func (f *fixture) freeze(p run.Process) (thaw func() error) {
	f.t.Helper()
	const freezer = "/sys/fs/cgroup/freezer"
	cell := filepath.Join(freezer, filepath.Base(f.root))
	if err := os.Mkdir(cell, 0o755); err != nil {
		f.t.Skipf("a process that SIGKILL does not end can only be made with a cgroup v1 freezer, and root: %v", err)
	}
	thaw = func() error { return os.WriteFile(filepath.Join(cell, "freezer.state"), []byte("THAWED"), 0) }
	f.t.Cleanup(func() {
		if err := thaw(); err != nil {
			f.t.Error(err)
		}
		agenttest.Eventually(f.t, "the freezer is empty", func() bool { return unix.Rmdir(cell) == nil })
	})
	if err := os.WriteFile(filepath.Join(cell, "cgroup.procs"), []byte(strconv.Itoa(p.PID)), 0); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cell, "freezer.state"), []byte("FROZEN"), 0); err != nil {
		f.t.Fatal(err)
	}
	return thaw
}

func TestSweepNamesWhatItCannotKill(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 1000")
	r := f.start().started()
	worker := f.worker(r, 0)
	thaw := f.freeze(worker)
	f.killShim()
	err := sweep.Sweep(f.dir, f.order.LockDir, nil)
	if err == nil || !strings.Contains(err.Error(), "UNKILLABLE pid "+strconv.Itoa(worker.PID)) {
		t.Errorf("Sweep: %v", err)
	}
	if u, ok := errors.AsType[*sweep.Unkillable](err); !ok || !u.KillPending || !slices.Contains(u.PIDs, worker.PID) {
		t.Errorf("Sweep: %+v", u)
	}
	rec := f.recorded()
	unseen := rec
	unseen.Cgroup, unseen.Containment = filepath.Join(f.root, "unmounted", "x"), run.Cgroup2
	if err = durable.WriteJSON(filepath.Join(f.dir, rundir.ShimFile), unseen); err != nil {
		t.Fatal(err)
	}
	err = sweep.Sweep(f.dir, f.order.LockDir, nil)
	if u, ok := errors.AsType[*sweep.Unkillable](err); !ok || u.KillPending || !strings.Contains(err.Error(), "no cgroups are mounted there") {
		t.Errorf("Sweep with a group that cannot be seen: %v, %+v", err, u)
	}
	if err := durable.WriteJSON(filepath.Join(f.dir, rundir.ShimFile), rec); err != nil {
		t.Fatal(err)
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	if err := sweep.Sweep(f.dir, f.order.LockDir, nil); err != nil {
		t.Error(err)
	}
	f.nothingLeft()
}

// A process in a frozen v1 freezer cannot be killed, like one in a driver that hangs.
func TestUnkillableWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 1000")
	r := f.start().started()
	worker := f.worker(r, 0)
	thaw := f.freeze(worker)
	if proc.KillPending(worker.PID) {
		t.Error("SIGKILL is pending before it was sent: this tests nothing")
	}
	begun := time.Now()
	f.push(run.Wish{Kill: "test", Retire: true})
	r = f.await("unkillable, with SIGKILL pending", func(r run.Report) bool { return len(r.Unkillable) > 0 && r.KillPending })
	if took := time.Since(begun); took < run.UnkillableAfter {
		t.Errorf("reported after %v", took)
	}
	if r.Stopped != nil || r.Unkillable[0] != worker.PID || r.Failed == nil || !strings.HasPrefix(r.Failed.Reason, "UNKILLABLE pid "+strconv.Itoa(worker.PID)) {
		t.Errorf("report %+v, failed %+v", r, r.Failed)
	}
	if len(heldStill(f.order, f.dir)) == 0 {
		t.Error("the device's lock is free while its worker lives")
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	f.gone("the shim", f.shim)
	if r, err := rundir.ReadReport(f.dir); err != nil || r.Stopped == nil || len(r.Unkillable) > 0 || r.KillPending {
		t.Errorf("report on disk %+v, %v", r, err)
	}
	f.nothingLeft()
}
