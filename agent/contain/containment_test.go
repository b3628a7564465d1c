package contain

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

func TestAContainmentThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Name: "bellows/not/a/name", Kind: run.Cgroup1}); err == nil || !strings.Contains(err.Error(), "--containment") {
		t.Errorf("got %v", err)
	}
	c, err := New(Config{Name: "bellows/not/a/name"})
	if err != nil || c.Kind != run.Weak || c.NotStronger == nil {
		t.Errorf("without a wish: %+v, %v", c, err)
	}
}

func TestARecordOfAnOlderShimMeansCgroup2(t *testing.T) {
	if g, ok := Open("", "/sys/fs/cgroup/x").(cgroup); !ok || g != "/sys/fs/cgroup/x" {
		t.Errorf("got %v", g)
	}
	if g := Open(run.Weak, ""); g != nil {
		t.Errorf("got %v", g)
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
	left, err := (&Containment{Kind: run.Weak}).Left()
	if err != nil || len(left) < 3 || !slices.IsSortedFunc(left, func(a, b proc.Stat) int { return a.PID - b.PID }) {
		t.Errorf("left: %v, %v", left, err)
	}
}
