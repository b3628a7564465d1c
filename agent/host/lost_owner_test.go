package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/record"
)

// Any user's process can name another's run in its environment. Where the run's
// directory is gone, its job's spec still says who its owner is: another user's
// process does not hold up the end of a generation, even one that cannot be killed.
func TestTheOwnerOfWhatHasLostItsDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	f := newFixture(t)
	s := f.settings("n1")
	stop := f.agent(s)
	j := f.job("lost", nested(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	child := f.child(1)
	stop()
	runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	other := exec.Command("/bin/sleep", "1000")
	other.Env = []string{"BELLOWS_WORKER_SOCKET=" + filepath.Join(runs[0].Dir, "worker.sock")}
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	thaw := f.freeze(other.Process.Pid)
	t.Cleanup(func() {
		thaw()
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	f.killShim(runs[0])
	if err := removeAll(runs[0].Dir); err != nil {
		t.Fatal(err)
	}
	f.agent(s)
	ack[record.Failed](f, j, "n1", record.AckFailed)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	for _, w := range append(started.Workers, child) {
		if lives(w) {
			t.Errorf("process %d lives although it is acknowledged as stopped", w.PID)
		}
	}
	if seen, ok := proc.Inspect(other.Process.Pid); !ok {
		t.Errorf("the other user's process is gone: this tests nothing; %+v", seen)
	}
}
