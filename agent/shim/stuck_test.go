package shim

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// A file system that hangs, played by a freezer: the process that looks at it does
// not even end when it is killed.
func TestPreparationsThatHangDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	_, f := pair(t, "exit 0")
	f.ownedBy(1, "daemon").start()
	f.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "checkpoint_dir") })
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	looks := familyOf(all).descendants(map[int]bool{f.shim.PID: true})
	if len(looks) != 1 {
		t.Fatalf("the shim's processes are %v, want the one that looks", looks)
	}
	thaw := f.freeze(run.Process{PID: looks[0].pid})
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
	eventually(t, "the process that looked is gone", func() bool {
		now, err := readStat(looks[0].pid)
		return err != nil || now.start != looks[0].start || !now.lives()
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
		order.World.Members[0].Devices = append(order.World.Members[0].Devices, cluster.DeviceID(itoa(i)))
	}
	m := assemble(&shared{order: order, containment: &containment{}, alarm: alarm, cancel: func() {}, state: run.New(order, run.Process{}, Weak)})
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
		eventually(f.t, "the freezer is empty", func() bool { return unix.Rmdir(cell) == nil })
	})
	if err := os.WriteFile(filepath.Join(cell, "cgroup.procs"), []byte(itoa(p.PID)), 0); err != nil {
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
	err := Sweep(f.dir, f.order.LockDir, nil)
	if err == nil || !strings.Contains(err.Error(), "UNKILLABLE pid "+itoa(worker.PID)) {
		t.Errorf("Sweep: %v", err)
	}
	if u, ok := errors.AsType[*Unkillable](err); !ok || !u.KillPending || !slices.Contains(u.PIDs, worker.PID) {
		t.Errorf("Sweep: %+v", u)
	}
	rec := f.recorded()
	unseen := rec
	unseen.Cgroup, unseen.Containment = filepath.Join(f.root, "unmounted", "x"), Cgroup2
	if err = writeDurable(filepath.Join(f.dir, shimFile), unseen); err != nil {
		t.Fatal(err)
	}
	err = Sweep(f.dir, f.order.LockDir, nil)
	if u, ok := errors.AsType[*Unkillable](err); !ok || u.KillPending || !strings.Contains(err.Error(), "no cgroups are mounted there") {
		t.Errorf("Sweep with a group that cannot be seen: %v, %+v", err, u)
	}
	if err := writeDurable(filepath.Join(f.dir, shimFile), rec); err != nil {
		t.Fatal(err)
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(f.dir, f.order.LockDir, nil); err != nil {
		t.Error(err)
	}
	f.nothingLeft()
}

// What is left is not taken for all that is left where not all could be looked at.
func TestASweepThatDoesNotSeeAllTakesNothingForEnded(t *testing.T) {
	t.Parallel()
	self, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		group  picture
		fault  error
		faults error
		want   bool
	}{
		"all seen":                     {want: true},
		"a kill that did not work":     {fault: os.ErrPermission},
		"a record's group not mounted": {faults: os.ErrPermission},
		"a group that cannot be seen":  {group: picture{err: os.ErrPermission}},
		"a group that shows no pid":    {group: picture{populated: true}},
		"a group with what is left":    {group: picture{pids: []int{self.pid}, populated: true}, want: true},
		"a group with another":         {group: picture{pids: []int{os.Getppid()}, populated: true}},
	} {
		s := &sweeper{dir: t.TempDir(), contained: true, faults: c.faults, groups: []group{c.group}}
		if s.sawAll([]stat{self}, c.fault) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// picture is a group as it is seen.
type picture struct {
	group
	pids      []int
	populated bool
	err       error
}

func (p picture) look() (pids []int, populated bool, err error) { return p.pids, p.populated, p.err }

// A process in a frozen v1 freezer cannot be killed, like one in a driver that hangs.
func TestUnkillableWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 1000")
	r := f.start().started()
	worker := f.worker(r, 0)
	thaw := f.freeze(worker)
	if killPending(worker.PID) {
		t.Error("SIGKILL is pending before it was sent: this tests nothing")
	}
	begun := time.Now()
	f.push(run.Wish{Kill: "test", Retire: true})
	r = f.await("unkillable, with SIGKILL pending", func(r run.Report) bool { return len(r.Unkillable) > 0 && r.KillPending })
	if took := time.Since(begun); took < run.UnkillableAfter {
		t.Errorf("reported after %v", took)
	}
	if r.Stopped != nil || r.Unkillable[0] != worker.PID || r.Failed == nil || !strings.HasPrefix(r.Failed.Reason, "UNKILLABLE pid "+itoa(worker.PID)) {
		t.Errorf("report %+v, failed %+v", r, r.Failed)
	}
	if len(heldStill(f.order, f.dir)) == 0 {
		t.Error("the device's lock is free while its worker lives")
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	f.gone("the shim", f.shim)
	if r, err := ReadReport(f.dir); err != nil || r.Stopped == nil || len(r.Unkillable) > 0 || r.KillPending {
		t.Errorf("report on disk %+v, %v", r, err)
	}
	f.nothingLeft()
}

// A process with SIGKILL pending runs nothing more, in any thread, and has forked nothing meanwhile.
func TestWhatHasSIGKILLPending(t *testing.T) {
	const pending, other = "State:\tD (disk sleep)\nSigQ:\t1/2\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n", "0000000000000200"
	for status, want := range map[string]bool{
		pending: true,
		strings.Replace(pending, "0000000000000100", other, 1):                           false,
		strings.Replace(pending, "0000000000000100", "0000000000000300", 1):              true,
		"State:\tD (disk sleep)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n": false, // the kernel sends it to each thread
		"State:\tZ (zombie)\nSigPnd:\t0000000000000000\n":                                true,
		"State:\tR (running)\nSigPnd:\tnonsense\n":                                       false,
		"": false,
	} {
		if ends(status) != want {
			t.Errorf("%q: %t", status, !want)
		}
	}
	self, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if onlyKillPending([]stat{self}, func() ([]stat, error) { return []stat{self}, nil }) {
		t.Error("this test has SIGKILL pending")
	}
	gone := stat{pid: 1 << 30, start: 1} // none has such a pid
	for name, c := range map[string]struct {
		again []stat
		err   error
		want  bool
	}{
		"alone":        {[]stat{gone}, nil, true},
		"with a child": {[]stat{gone, self}, nil, false},
		"unknown":      {[]stat{gone}, os.ErrPermission, false},
	} {
		if onlyKillPending([]stat{gone}, func() ([]stat, error) { return c.again, c.err }) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}
