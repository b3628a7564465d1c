package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// olderCommit is the version that a cluster is upgraded from, and goes back to: the last one before orders, wishes and
// reports moved to agent/run. Move it on with each release.
const olderCommit = "5ab89d35ed97594184a77fe1d3d1edc3eb08fd20"

// olderProgram builds the program of olderCommit.
func olderProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "source"), filepath.Join(dir, "bellows")
	if err := exec.Command("git", "-C", "..", "cat-file", "-e", olderCommit+"^{commit}").Run(); err != nil {
		t.Skipf("commit %s is not in this clone, which may be shallow: git fetch --unshallow", olderCommit)
	}
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command("sh", "-c", `git -C .. archive "$0" | tar -x -C "$1"`, olderCommit, source),
		exec.Command("go", "build", "-C", source, "-ldflags=-s -w", "-o", path, "./cmd/bellows"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	for _, p := range []string{dir, path} { // shims look as other users
		if err := os.Chmod(p, 0o755); err != nil { //nolint:gosec // as above
			t.Fatal(err)
		}
	}
	return path
}

// A cluster is upgraded one part at a time while a job trains on it, agents first, and then goes back, the leader first.
// Each mixture rescales the job: shims of one version answer to agents of the other, and to a leader of either. No
// worker ends that was not told to, and each step is taken once.
func TestUpgradeAndBackLosesNoStep(t *testing.T) {
	t.Parallel()
	older := olderProgram(t)
	f := emptyFleet(t, config{nodes: 2, devices: 2, policy: "share"})
	f.instead = older
	f.startEtcd()
	f.startCoordinator(1)
	f.startAgent(1)
	f.startAgent(2)
	f.awaitMembers()
	id := f.submit(f.sdkJob("a", 1, 4, 1<<30, 0.2))
	f.awaitStep("a", 3, 4)

	agent := func(i int, program string) {
		t.Helper()
		before := f.started(id)
		f.kill("agent-" + string(node(i)))
		f.instead = program
		f.startAgent(i)
		f.awaitReady(i)
		f.awaitStep("a", f.lastStep("a")+5, 4) // it goes on
		if after := f.started(id); !slices.Equal(after, before) {
			t.Fatalf("the new agent of %s has other workers: %v, were %v", node(i), after, before)
		}
	}
	leader := func(program string) {
		f.kill("coordinator-1")
		f.instead = program
		f.startCoordinator(1)
	}
	rescales := 0
	rescale := func(name string) {
		t.Helper()
		other := f.submit(f.sdkJob(name, 2, 2, 100000, 0.1))
		f.awaitStep("a", f.awaitStep("a", f.lastStep("a"), 2)+3, 2)
		f.awaitPhase(other, cluster.Running)
		f.stop(other)
		f.awaitStep("a", f.awaitStep("a", f.lastStep("a"), 4)+3, 4)
		f.awaitRunning(id, 4, 0)
		rescales += 2
	}

	agent(1, "")
	rescale("one-agent-is-new")
	agent(2, "")
	rescale("the-agents-are-new")
	leader("")
	rescale("all-are-new")
	leader(older)
	rescale("the-leader-went-back")
	agent(1, older)
	rescale("one-agent-went-back")
	agent(2, older)
	rescale("all-went-back")
	f.instead = ""

	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	if s := f.mirror().Job(id).State.Value; s.Restarts != 0 || int(s.Generation) < 1+rescales {
		t.Errorf("%d restarts, generation %d after %d rescales", s.Restarts, s.Generation, rescales)
	}
	for step, n := range takes(f.trace("a")) {
		if n != 1 {
			t.Errorf("step %d was taken %d times", step, n)
		}
	}
}
