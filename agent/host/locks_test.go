package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// leakLock has a process outside any job keep a lock open that a shim holds, as one
// did to which a worker of an earlier version had passed it on.
func (f *fixture) leakLock(runDir, lock string) *exec.Cmd {
	f.Helper()
	runs, _, err := rundir.Scan(runDir)
	if err != nil || len(runs) != 1 {
		f.Fatalf("runs %+v, %v", runs, err)
	}
	pid := runs[0].Shim.PID
	fd := -1
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		if to, errLink := os.Readlink(filepath.Join(dir, name.Name())); errLink == nil && to == lock {
			fd, _ = strconv.Atoi(name.Name())
		}
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		f.Fatal(err)
	}
	defer unix.Close(pidfd) //nolint:errcheck // nothing was written to it
	if fd, err = unix.PidfdGetfd(pidfd, fd, 0); err != nil {
		f.Fatalf("take %s from the shim: %v", lock, err)
	}
	file := os.NewFile(uintptr(fd), lock)
	defer file.Close()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{file}
	if err = cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// Who holds a lock of a job that has ended is named, and keeps no other from the device.
func TestWhoHoldsAnOldLockIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may take another process's descriptors, which stands for their being passed on")
	}
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("leaky", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	thief := f.leakLock(filepath.Join(s.Dir, "r"), filepath.Join(s.Dir, "locks", "SIM-n1-0.lock"))
	f.commit(record.Delete(record.PermitKey(j.Job, j.Generation)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)

	who := "its lock outlived job leaky generation 1, open in pid " + strconv.Itoa(thief.Process.Pid) + " (sleep) of "
	f.published(0, cluster.Healthy, who)
	f.problem(j, who, "device SIM-n1-0")
	next := f.job("next", []string{"/bin/true"}, map[string]int{"n1": 1}, "n1")
	f.start(next)
	if stopped := ack[record.Stopped](f, next, "n1", record.AckStopped); !stopped.Finished {
		t.Errorf("the next job: %+v", stopped)
	}
	_ = thief.Process.Kill()
	_ = thief.Wait()
	f.published(0, cluster.Healthy, "")
}
