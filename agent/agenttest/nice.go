package agenttest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Nice is the priority of each thread of the processes, as the kernel's number between 1 and 40, and the nice value of
// their sessions.
func Nice(t *testing.T, pids []int) (all []int) {
	t.Helper()
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		tasks, err := os.ReadDir(filepath.Join(dir, "task"))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			nice, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
			if err == nil {
				all = append(all, 20-nice)
			}
		}
		if b, err := os.ReadFile(filepath.Join(dir, "autogroup")); err == nil {
			words := strings.Fields(string(b)) // none where the kernel has put it into no group, as all are until their session begins
			if len(words) == 0 {
				continue
			}
			if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}
