package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
)

const ordinary = 65534 // the user nobody

// startUnprivileged starts the shim as an ordinary user would have it: no
// rights on any cgroup.
func (f *fixture) startUnprivileged() *fixture {
	f.t.Helper()
	f.giveTo(ordinary, ordinary)
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	own := filepath.Join(f.root, "bellows") // where it lies only root may go
	if out, errCopy := exec.Command("cp", exe, own).CombinedOutput(); errCopy != nil {
		f.t.Fatalf("%v: %s", errCopy, out)
	}
	if err = os.Chmod(own, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.order.Owner = cluster.Owner{UID: ordinary, GID: ordinary, User: "nobody"}
	if err = rundir.WriteOrder(f.dir, f.order); err != nil {
		f.t.Fatal(err)
	}
	for _, path := range []string{f.root, f.dir, filepath.Join(f.dir, rundir.OrderFile)} {
		if err = os.Chown(path, ordinary, ordinary); err != nil {
			f.t.Fatal(err)
		}
	}
	cmd := exec.Command(own, "shim", "--dir", f.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	log, err := os.Create(filepath.Join(f.dir, rundir.LogFile))
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err = cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	agenttest.Eventually(f.t, "the shim answers", func() bool {
		c, err := Dial(f.dir)
		f.conn = c
		return err == nil
	})
	f.shim = f.recorded().Shim
	return f
}

func TestWeakContainmentHoldsWhileTheShimLives(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "").python(escape + "while True: time.sleep(1)").startUnprivileged()
	if r := f.started(); r.Containment != run.Weak {
		t.Errorf("containment %q", r.Containment)
	}
	p := f.escaped()
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	if proc.Alive(p) {
		t.Error("the escaped process lives after Stopped")
	}
	f.retire()
}

func TestWeakContainmentOfLeftovers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape).startUnprivileged()
	p := f.escaped()
	r := f.stopped()
	if proc.Alive(p) || len(r.Leftover) != 1 || !r.Stopped.Finished {
		t.Errorf("lives: %v, leftover %v, stopped %+v", proc.Alive(p), r.Leftover, r.Stopped)
	}
	f.retire()
}

func TestWeakContainmentOfAForkBomb(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `
bomb() { while [ $(ls /proc | grep -c '^[0-9]') -lt 300 ]; do (bomb) & sleep 0.01; done; sleep 1000; }
echo up > up-0
bomb & bomb & wait; wait; sleep 1000`).startUnprivileged()
	f.awaitFile("up-0")
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

func TestSweepFindsWhatAWeakShimLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").startUnprivileged()
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
}

func TestAnOrdinaryUsersDeadlineKillsToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, stubborn)
	f.order.Strict, f.order.Deadline = true, proc.Boottime()+int64(time.Hour)
	f.startUnprivileged()
	f.started()
	f.push(run.Wish{Deadline: proc.Boottime() + int64(50*time.Millisecond)})
	f.stopped()
	f.retire()
}
