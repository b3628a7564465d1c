package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// newFleetWithoutEtcd starts everything but etcd, whose address is known.
func newFleetWithoutEtcd(t testing.TB, c config) *fleet {
	t.Helper()
	f := emptyFleet(t, c)
	f.endpoint = f.addr(0) + ":2379" // where startEtcd will have it
	f.startCoordinator(1)
	f.startAgent(1)
	return f
}

// stopEtcd ends etcd; its data stays.
func (r *records) stopEtcd() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.etcd.Close(ctx); err != nil {
		r.t.Fatal(err)
	}
	r.etcd, r.store = nil, nil
}

// An etcd that comes late is waited for; one that goes away and comes back is
// lived without: training goes on, and people are told.
func TestEtcdComesLateAndGoesAway(t *testing.T) {
	t.Parallel()
	f := newFleetWithoutEtcd(t, config{devices: 2})
	for _, name := range []string{"coordinator-1", "agent-n1"} { // at once, before anything can have failed
		f.awaitLog(f.procs[name], "connecting to etcd", f.endpoint)
	}
	f.awaitLog(f.procs["coordinator-1"], "etcd does not answer", f.endpoint, "trying again")
	f.awaitLog(f.procs["agent-n1"], "etcd does not answer", f.endpoint, "trying again")
	_, errs, code := f.bellows("ps")
	if code != 3 || !strings.Contains(errs, "no agent answers at "+f.socket(1)) {
		t.Errorf("ps of a node that waits for etcd: exit %d, %s", code, errs)
	}

	f.startEtcd()
	f.awaitMembers()
	id := f.submit(f.sdkJob("lasting", 2, 2, 1<<30, 0.1, "--save-every", "20"))
	f.awaitStep("lasting", 3, 2)
	workers := f.started(id)

	f.stopEtcd()
	f.awaitStep("lasting", f.lastStep("lasting")+150, 2) // at 20 steps a second: longer than D
	_, errs, code = f.bellows("run", "-d", "--name", "late", "--max", "1", "--checkpoint-dir", filepath.Join(f.dir, "c"), "--", "true")
	if want := "etcd did not answer within 5s, so it may or may not be accepted; sending the same request again is safe"; code != 3 || !strings.Contains(errs, want) {
		t.Errorf("run without etcd: exit %d, %s", code, errs)
	}
	out, errs, code := f.bellows("ps")
	if code != 0 || !strings.Contains(out, "lasting") || !strings.Contains(errs, "etcd has not answered this node for") {
		t.Errorf("ps without etcd: exit %d, %s, %s", code, out, errs)
	}
	_, errs, code = f.bellows("stop", "lasting")
	if code != 3 || !strings.Contains(errs, "etcd did not answer within 5s") {
		t.Errorf("stop without etcd: exit %d, %s", code, errs)
	}

	f.startEtcd()
	f.await("a leader and the node", func(m *record.Mirror) bool { return len(m.Leaders) > 0 && m.Node("n1").Alive.Exists() })
	f.awaitStep("lasting", f.lastStep("lasting")+20, 2)
	if s := f.mirror().Job(id).State.Value; s.Generation != 1 || s.Restarts != 0 {
		t.Errorf("an outage of etcd on a single node costs nothing, but: %+v", s)
	}
	if now := f.started(id); len(now) != 2 || now[0] != workers[0] || now[1] != workers[1] {
		t.Errorf("the workers were %v and are %v", workers, now)
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	for step, n := range takes(f.trace("lasting")) {
		if n != 1 {
			t.Errorf("step %d was taken %d times", step, n)
		}
	}
}

// What waits for an etcd that never comes ends when it is told to.
func TestWaitingForEtcdCanBeInterrupted(t *testing.T) {
	t.Parallel()
	f := newFleetWithoutEtcd(t, config{})
	for _, name := range []string{"coordinator-1", "agent-n1"} {
		p := f.procs[name]
		f.awaitLog(p, "trying again")
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Fatalf("%s goes on waiting", name)
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d", name, code)
		}
	}
}
