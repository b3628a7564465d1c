package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
)

// Workers and what they have started are inside, whatever holds them; others are not.
func TestWhoIsInsideARun(t *testing.T) {
	t.Parallel()
	for _, kind := range append(kinds(), run.Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != run.Weak {
				needsKind(t, kind)
			}
			f := newFixture(t, 1, "setsid sleep 1000 & echo $! > child; wait")
			f.order.Containment = kind
			f.start()
			r := f.started()
			child := 0
			if _, err := fmt.Sscan(f.awaitFile("child"), &child); err != nil {
				t.Fatal(err)
			}
			broken := t.TempDir()
			if err := os.WriteFile(filepath.Join(broken, rundir.ShimFile), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			lists, err := sweep.Inside([]string{f.root, broken, f.dir}) // the first is no run
			if err != nil || len(lists) != 3 || lists[0].PIDs != nil || lists[0].Err != nil || lists[1].Err == nil || lists[2].Err != nil {
				t.Fatalf("inside are %v, %v", lists, err)
			}
			pids := lists[2].PIDs
			for _, pid := range []int{r.Shim.PID, r.Workers[0].PID, child} {
				if !slices.Contains(pids, pid) {
					t.Errorf("%d is not among %v", pid, pids)
				}
			}
			if slices.Contains(pids, os.Getpid()) {
				t.Error("we are not inside")
			}
			seen, ok := proc.Inspect(child)
			for end := time.Now().Add(agenttest.Patience); ok && seen.Command != "sleep" && time.Now().Before(end); time.Sleep(time.Millisecond) {
				seen, ok = proc.Inspect(child) // it has yet to become that
			}
			if !ok || seen.Command != "sleep" || seen.UID != uint32(os.Getuid()) || seen.StartTime == 0 {
				t.Errorf("the child is shown as %+v, %v", seen, ok)
			}
			f.push(run.Wish{Kill: "test"})
			f.stopped()
			if seen, ok := proc.Inspect(child); ok {
				t.Errorf("a process that is gone is shown as %+v", seen)
			}
			f.retire()
		})
	}
}
