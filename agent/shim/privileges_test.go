package shim

import (
	"os"
	"strings"
	"testing"
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
		if own := f.statusOf(r.Shim.PID); !strings.Contains(own, "NoNewPrivs:\t0\n") {
			t.Errorf("the shim: %s", own)
		}
		f.push(Wish{Kill: "test"})
		f.stopped()
		f.retire()
	}
}

// statusOf is what the system shows of a process.
func (f *fixture) statusOf(pid int) string {
	f.t.Helper()
	b, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}
