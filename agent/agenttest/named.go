package agenttest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
)

// Named are the pids of the living processes that name a run directory in their environment, as its workers do, sorted.
func Named(t *testing.T, dir string) []int {
	t.Helper()
	mark := run.SocketVariable + "=" + filepath.Join(dir, run.WorkerSocket)
	return showing(t, "environ", func(entries []string) bool { return slices.Contains(entries, mark) })
}

// Hosting are the pids of the living processes that host the run of a directory, by their command lines, sorted.
func Hosting(t *testing.T, dir string) []int {
	t.Helper()
	return showing(t, "cmdline", func(argv []string) bool {
		return len(argv) >= 4 && argv[1] == "shim" && argv[2] == "--dir" && argv[3] == dir
	})
}

// showing finds the processes whose file in /proc has entries for which is returns true. A process that does not answer in
// time, as one that another test has stopped, is left out.
func showing(t *testing.T, name string, is func(entries []string) bool) (pids []int) {
	t.Helper()
	const enough = 2 * time.Second
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan int, len(dirs))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			found <- 0
			continue
		}
		go func() {
			b, err := os.ReadFile(filepath.Join(dir, name))
			var entries []string
			for entry := range bytes.SplitSeq(b, []byte{0}) {
				entries = append(entries, string(entry))
			}
			if err != nil || !is(entries) {
				pid = 0
			}
			found <- pid
		}()
	}
	late := time.After(enough)
	for range dirs {
		select {
		case pid := <-found:
			if pid != 0 {
				pids = append(pids, pid)
			}
		case <-late:
			slices.Sort(pids)
			return pids
		}
	}
	slices.Sort(pids)
	return pids
}
