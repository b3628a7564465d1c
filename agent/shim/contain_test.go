package shim

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/internal/durable"
)

// eachKind runs a test in every containment that has a group.
func eachKind(t *testing.T, ranks int, test func(f *fixture)) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			needsKind(t, kind)
			f := newFixture(t, ranks, "")
			f.order.Containment = kind
			test(f)
		})
	}
}

// record is the run's record.
func (f *fixture) record() (rec rundir.Record) {
	f.t.Helper()
	if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
		f.t.Fatal(err)
	}
	return rec
}

// group is where the run's processes are.
func (f *fixture) group() contain.Group {
	f.t.Helper()
	rec := f.record()
	return contain.Open(rec.Containment, rec.Cgroup)
}

func (f *fixture) groupDir() string {
	f.t.Helper()
	return f.record().Cgroup
}

// freeze freezes a group of the v1 freezer.
func freeze(dir string) error {
	return os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("FROZEN"), 0)
}

func TestWorkersAreBornInsideTheirGroup(t *testing.T) {
	t.Parallel()
	eachKind(t, 2, func(f *fixture) {
		f.script("sleep 1000 & echo up > up-$RANK; wait").start()
		r := f.started()
		f.awaitFile("up-0")
		f.awaitFile("up-1")
		if r.Containment != f.order.Containment {
			f.t.Errorf("containment %q", r.Containment)
		}
		pids, populated, err := f.group().Look()
		if err != nil || !populated || len(pids) != 4 {
			f.t.Errorf("inside are %v, %v, %v, want two workers and their two children", pids, populated, err)
		}
		f.push(run.Wish{Kill: "test"})
		f.stopped()
		f.retire()
	})
}

func TestGroupsHoldWhoForksAndExits(t *testing.T) {
	t.Parallel()
	// Each process lives for an instant: a kill that follows a listing is always late.
	const hare = `hop() { [ -e over ] || ( sleep 0.001; hop ) & }
echo up > up-0; i=0; while [ $i -lt 20 ]; do hop; i=$((i+1)); done; exec sleep 1000`
	eachKind(t, 1, func(f *fixture) {
		f.script(hare).start()
		f.awaitFile("up-0")
		f.push(run.Wish{Kill: "test"})
		f.stopped()
		f.retire()
	})
}

func TestGroupsHoldForkBombs(t *testing.T) {
	t.Parallel()
	eachKind(t, 1, func(f *fixture) {
		f.script(`
bomb() { while [ $(ls /proc | grep -c '^[0-9]') -lt 400 ]; do (bomb) & sleep 0.01; done; sleep 1000; }
echo up > up-0
bomb & bomb & wait; wait; sleep 1000`).start()
		f.awaitFile("up-0")
		f.push(run.Wish{Kill: "test"})
		f.stopped()
		f.retire()
	})
}

func TestGroupsHoldDaemons(t *testing.T) {
	t.Parallel()
	eachKind(t, 1, func(f *fixture) {
		f.python(escape + "while True: time.sleep(1)").start()
		p := f.escaped()
		if pids, _, err := f.group().Look(); err != nil || !slices.Contains(pids, p.PID) {
			f.t.Errorf("the daemon %d is not among %v, %v", p.PID, pids, err)
		}
		f.push(run.Wish{Kill: "test"})
		f.stopped()
		if proc.Alive(p) {
			f.t.Error("the daemon lives after Stopped")
		}
		f.retire()
	})
}

func TestGroupsLeadSweepsToWhatIsLeft(t *testing.T) {
	t.Parallel()
	// Without the environment by which it could be found otherwise.
	eachKind(t, 1, func(f *fixture) {
		f.python(strings.Replace(escape, "os.setsid()", `os.setsid()
    os.execve(sys.executable, [sys.executable, "-c", """`+
			"import os, time\nif os.fork() == 0:\n    open('escaped.tmp', 'w').write('%d\\\\n' % os.getpid()); os.rename('escaped.tmp', 'escaped')\n    while True: time.sleep(1)\nos._exit(0)"+
			`"""], {})`, 1) + "while True: time.sleep(1)").start()
		f.started()
		p := f.escaped()
		f.killShim()
		if !proc.Alive(p) {
			f.t.Fatal("the daemon is gone already: this tests nothing")
		}
		if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
			f.t.Fatal(err)
		}
		if proc.Alive(p) {
			f.t.Error("the daemon lives")
		}
		f.nothingLeft()
	})
}

// A shim that dies between freezing and thawing leaves processes that SIGKILL
// does not reach; the sweep after it thaws them.
func TestSweepThawsWhatAShimHasFrozen(t *testing.T) {
	t.Parallel()
	needsKind(t, run.Cgroup1)
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)")
	f.order.Containment = run.Cgroup1
	f.start()
	f.started()
	p := f.escaped()
	if err := freeze(f.groupDir()); err != nil {
		t.Fatal(err)
	}
	f.killShim()
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	if proc.Alive(p) {
		t.Error("the daemon lives")
	}
	f.nothingLeft()
}

// A job of root's may divide its freezer and freeze a part itself.
func TestWhatAJobHasFrozenItselfIsKilled(t *testing.T) {
	t.Parallel()
	needsKind(t, run.Cgroup1)
	f := newFixture(t, 1, "")
	f.order.Containment = run.Cgroup1
	f.script("echo up > up-0; sleep 1000").start()
	f.awaitFile("up-0")
	below := filepath.Join(f.groupDir(), "own")
	r := f.started()
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(r.Workers[0].PID)), 0); err != nil {
		t.Fatal(err)
	}
	if err := freeze(below); err != nil {
		t.Fatal(err)
	}
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// What root has moved out of a run's group is killed all the same: as a child of the shim's, at the latest
// once its parent has ended.
func TestWhatWasMovedOutOfItsGroupIsKilled(t *testing.T) {
	t.Parallel()
	needsKind(t, run.Cgroup2)
	f := newFixture(t, 1, "")
	f.order.Containment = run.Cgroup2
	f.script("sleep 1000 & echo $! > up-0; wait").start()
	r := f.started()
	child, err := strconv.Atoi(strings.TrimSpace(f.awaitFile("up-0")))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Dir(f.groupDir())
	for _, pid := range []int{r.Workers[0].PID, child} {
		if err := os.WriteFile(filepath.Join(out, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if pids, _, err := f.group().Look(); len(pids) != 0 || err != nil {
		t.Fatalf("in the group are %v, %v", pids, err)
	}
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	if p, err := proc.ReadStat(child); err == nil && p.Lives() {
		t.Errorf("%s lives", p)
	}
	f.retire()
}
