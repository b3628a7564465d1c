package warm

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
)

// A library may have had threads before the release: each thread has a priority of its own.
func TestAllThreadsOfAReleasedWorkerHurry(t *testing.T) {
	t.Parallel()
	if !proc.May(unix.CAP_SYS_NICE) {
		t.Skip("only a process that may raise priorities may lower one for a while")
	}
	cmd := exec.Command("python3", "-c", "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, args=(1000,)).start()\nprint('up', flush=True)")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err = out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	tasks, err := os.ReadDir(proc.Root.File(pid, "task"))
	if err != nil || len(tasks) != 4 {
		t.Fatalf("threads %v, %v", tasks, err)
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if err = unix.Setpriority(unix.PRIO_PROCESS, tid, calmNice); err != nil {
			t.Fatal(err)
		}
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err = errors.Join(err, Hurry(pid)); err != nil {
		t.Fatal(err)
	}
	if all := agenttest.Nice(t, proc.Tree(pid)); slices.ContainsFunc(all, func(n int) bool { return n != 20-own && n != 0 }) {
		t.Errorf("priorities %v", all)
	}
}
