package shim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// A worker that is to gain no rights has the kernel's word for it, and so has all
// that it starts; the shim itself, and other jobs' workers, are as they were.
func TestWorkersGainNoRights(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{true, false} {
		f := newFixture(t, 2, `grep NoNewPrivs /proc/self/status > mine-$RANK
sh -c 'grep NoNewPrivs /proc/self/status' > theirs-$RANK
exec sleep 1000`)
		f.order.NoNewPrivs = wanted
		r := f.start().started()
		want := map[bool]string{true: "NoNewPrivs:\t1\n", false: "NoNewPrivs:\t0\n"}[wanted]
		for _, name := range []string{"mine-0", "mine-1", "theirs-0", "theirs-1"} {
			if got := f.awaitFile(name); got != want {
				t.Errorf("%s, wanted %v: %q", name, wanted, got)
			}
		}
		// One thread executes workers, which may be the process's first; the shim's others keep their rights.
		with, without := f.threadsWith(r.Shim.PID, "NoNewPrivs:\t1\n"), f.threadsWith(r.Shim.PID, "NoNewPrivs:\t0\n")
		if wantWith := map[bool]int{true: 1, false: 0}[wanted]; with != wantWith || without == 0 {
			t.Errorf("the shim, wanted %v: %d threads cannot gain rights, %d can, want %d and the others", wanted, with, without, wantWith)
		}
		f.push(run.Wish{Kill: "test"})
		f.stopped()
		f.retire()
	}
}

// threadsWith counts the threads of a process whose status has a line.
func (f *fixture) threadsWith(pid int, line string) (n int) {
	f.t.Helper()
	paths, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			f.t.Fatal(err)
		}
		if strings.Contains(string(b), line) {
			n++
		}
	}
	return n
}
