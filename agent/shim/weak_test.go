package shim

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
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
	if err = writeOrder(f.dir, f.order); err != nil {
		f.t.Fatal(err)
	}
	for _, path := range []string{f.root, f.dir, filepath.Join(f.dir, orderFile)} {
		if err = os.Chown(path, ordinary, ordinary); err != nil {
			f.t.Fatal(err)
		}
	}
	cmd := exec.Command(own, "shim", "--dir", f.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	log, err := os.Create(filepath.Join(f.dir, logFile))
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err = cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	eventually(f.t, "the shim answers", func() bool {
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
	if r := f.started(); r.Containment != Weak {
		t.Errorf("containment %q", r.Containment)
	}
	p := f.escaped()
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	if Alive(p) {
		t.Error("the escaped process lives after Stopped")
	}
	f.retire()
}

func TestWeakContainmentOfLeftovers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape).startUnprivileged()
	p := f.escaped()
	r := f.stopped()
	if Alive(p) || len(r.Leftover) != 1 || !r.Stopped.Finished {
		t.Errorf("lives: %v, leftover %v, stopped %+v", Alive(p), r.Leftover, r.Stopped)
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
	if !Alive(p) {
		t.Fatal("the escaped process is gone already: this tests nothing")
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	if Alive(p) {
		t.Error("the escaped process lives")
	}
	f.nothingLeft()
}

func TestAnOrdinaryUsersDeadlineKillsToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, stubborn)
	f.order.Strict, f.order.Deadline = true, Boottime()+int64(time.Hour)
	f.startUnprivileged()
	f.started()
	f.push(run.Wish{Deadline: Boottime() + int64(50*time.Millisecond)})
	f.stopped()
	f.retire()
}

func TestAnOrdinaryUserRunsOnlyItsOwnJobs(t *testing.T) {
	if os.Geteuid() == 0 {
		_, err := identifyOwner(t.Context(), cluster.Owner{UID: 0, User: "root"}, userdb.Find)
		if err != nil {
			t.Errorf("root's own job: %v", err)
		}
		return
	}
	if _, err := identifyOwner(t.Context(), cluster.Owner{UID: 0, User: "root"}, userdb.Find); err == nil {
		t.Error("root's job was accepted")
	}
}

// What is left is listed by pid, also where a process of an older family is the younger.
func TestWhatIsLeftIsListedByPid(t *testing.T) {
	t.Parallel()
	shell := func() (stdin io.Writer, stdout *bufio.Reader) {
		cmd := exec.Command("/bin/sh", "-c", "read go; sleep 1000 & echo forked $!; wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		return in, bufio.NewReader(out)
	}
	in, out := shell()
	shell()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	left, err := (&containment{kind: Weak}).left()
	if err != nil || len(left) < 3 || !slices.IsSortedFunc(left, func(a, b stat) int { return a.pid - b.pid }) {
		t.Errorf("left: %v, %v", left, err)
	}
}
