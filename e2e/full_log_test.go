package e2e

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A node whose own disk is full, under its logs, trains on: what cannot be
// written of them is missing, and said to be. A new size waits for room.
func TestFullDiskUnderLogs(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := emptyFleet(t, config{devices: 2, policy: "share"})
	f.startEtcd()
	f.startCoordinator(1)
	disk := f.smallDisk("n1", 16) // the node's data directory
	f.startAgent(1)
	f.awaitMembers()
	chatty := f.sdkJob("chatty", 1, 2, 1<<30, 0.05, "--save-every", "20")
	chatty["command"] = []string{"sh", "-c", "(while echo line after line after line; do sleep 0.01; done) & exec " + strings.Join(chatty["command"].([]string), " ")}
	id := f.submit(chatty)
	f.awaitStep("chatty", 1, 2)
	ballast := f.fill(disk)
	workers := f.started(id)
	f.awaitStep("chatty", f.lastStep("chatty")+100, 2)
	kept := f.mirror().Job(id).Committed.Value.Step
	f.await("another checkpoint, which lies elsewhere", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step > kept })
	if s := f.mirror().Job(id).State.Value; s.Phase != cluster.Running || s.Generation != 1 || s.Restarts != 0 {
		t.Errorf("a full disk under the logs ended it: %+v", s)
	}
	if now := f.started(id); len(now) != 2 || now[0] != workers[0] {
		t.Errorf("workers were %v and are %v", workers, now)
	}

	// An agent that is killed and comes back meanwhile adopts them all the same.
	f.kill("agent-n1")
	f.startAgent(1)
	f.awaitReady(1)
	f.awaitStep("chatty", f.lastStep("chatty")+20, 2)

	f.makeRoom(ballast)
	other := f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.05))
	f.awaitStep("chatty", f.lastStep("chatty"), 1)
	f.awaitStep("other", 0, 1)
	if s := f.mirror().Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("it was charged to the job: %+v", s)
	}
	out, errs, code := f.bellows("logs", "--generation", "1", "chatty")
	if code != 0 || !containsAll(out, "line after line", "lines are missing here: the log could not be written") {
		t.Errorf("logs: exit %d, %s; do they say what is missing?", code, errs)
	}
	f.stop(id)
	f.stop(other)
	f.awaitPhase(id, cluster.Stopped)
	f.awaitPhase(other, cluster.Stopped)
	f.nothingLeft(id)
}
