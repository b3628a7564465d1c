// Package agenttest has what the tests of the packages of a node share. It looks at /proc by itself, so that the tests of
// package proc can use it as well.
package agenttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
)

// Patience is how long a test waits for what must come true on a machine that is busy with other tests.
const Patience = 2 * time.Minute

// Eventually waits until ok, and fails the test if that takes longer than Patience.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for !ok() {
		waited := time.Since(began)
		if waited > Patience {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(max(2*time.Millisecond, min(waited/20, 250*time.Millisecond)))
	}
}

// Write writes a file, and makes the directories above it.
func Write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// NeedsRoot skips a test that only root can run.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run workers as another user, and only that is tested here")
	}
}

// Bearing starts a process of a user that names a run directory in its environment, as a worker does, and returns its pid.
// It ends with the test.
func Bearing(t *testing.T, dir string, uid uint32) (pid int) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{run.SocketVariable + "=" + filepath.Join(dir, run.WorkerSocket)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd.Process.Pid
}
