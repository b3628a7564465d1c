package sweep

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
)

// Users that have cgroups to themselves can give them any name: one with a run's
// name neither holds up its sweep nor proves that the run was contained.
func TestAUsersCgroupIsNotTheRuns(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	const ordinary = 65534 // the user nobody
	root := t.TempDir()
	runDir, locks := filepath.Join(root, "run"), filepath.Join(root, "locks")
	p, err := proc.Identify(agenttest.Bearing(t, runDir, ordinary))
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := contain.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, m := range mounts {
		for _, name := range []string{"bellows-x-g1-" + rundir.Name(runDir) + "-1", "bellows-x-1-" + rundir.Name(runDir) + "-1" + rundir.ScopeSuffix} {
			dir := filepath.Join(m.Dir, name)
			if os.Mkdir(dir, 0o755) != nil {
				continue // not every one may be written to
			}
			t.Cleanup(func() { agenttest.Eventually(t, "the group is empty", func() bool { return unix.Rmdir(dir) == nil }) })
			if err = os.Chown(dir, ordinary, ordinary); err != nil {
				t.Fatal(err)
			}
			_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(p.PID)), 0) // a cpuset takes none so far
			made++
		}
	}
	if made == 0 {
		t.Skip("a group of a user can only be made where cgroups may be written to")
	}
	s := &sweeper{dir: runDir}
	if _, err := s.left(); err != nil {
		t.Fatal(err)
	}
	if s.contained || len(s.groups)+len(s.scopes)+len(s.limits) > 0 {
		t.Errorf("contained %t, groups %v, scopes %v, limits %v", s.contained, s.groups, s.scopes, s.limits)
	}
	t.Cleanup(func() { _ = unix.Kill(p.PID, unix.SIGKILL) }) // before the groups are removed
	order := run.Order{Version: run.ProtocolVersion, Owner: cluster.Owner{UID: 1}, LockDir: locks, World: cluster.World{Job: "j", Generation: 1}}
	if err := rundir.WriteOrder(runDir, order); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(runDir, locks, nil); err != nil || !proc.Alive(p) {
		t.Errorf("Sweep: %v; the user's process lives: %t", err, proc.Alive(p))
	}
}
