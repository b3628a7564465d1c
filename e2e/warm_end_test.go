package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// When a job's phase is an end, no process of it lives: neither a worker nor what is parked, on any node (I12).
func TestParkedProcessesEndWithTheirJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase cluster.Phase
		end   func(f *fleet, id cluster.JobID)
	}{
		{cluster.Stopped, func(f *fleet, id cluster.JobID) { f.stop(id) }},
		{cluster.Succeeded, func(f *fleet, _ cluster.JobID) { f.write("finish", "") }},
		{cluster.Failed, func(f *fleet, id cluster.JobID) { _ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL) }},
	} {
		t.Run(string(c.phase), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, config{nodes: 2, devices: 2, policy: "share"})
			j := f.gated("ends", 1, 4)
			j["max-restarts"] = 0
			id := f.submit(j)
			g := f.settled(id, 4)
			f.prepared(id, g+1, 2)
			if parked := f.parked(id, g+1); len(parked) != 4 {
				t.Errorf("%d processes are parked, want 4", len(parked))
			}
			c.end(f, id)
			f.endsWithNothingAlive(id, c.phase)
			f.nothingLeft(id)
		})
	}

	// The node where processes are parked has no worker, and does not answer when the job is stopped.
	t.Run("beside its world", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, config{nodes: 2, devices: 2, policy: "share"})
		id := f.submit(f.gated("ends", 1, 2))
		g := f.settled(id, 2)
		members := f.mirror().Job(id).Generation(g).Plan.Value.World.Members
		if len(members) != 1 {
			t.Fatalf("two workers are on %+v", members)
		}
		home, other := members[0].Node, node(3-indexOf(members[0].Node))
		f.shut("imports-" + string(home))
		f.scale(id, 1, 4)
		f.await(string(other)+" to be ready", func(*record.Mirror) bool { return slices.Contains(f.said(other, id, g+1), "") })
		agent := f.procs["agent-"+string(other)].cmd.Process
		if err := agent.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		f.stop(id)
		f.await("the workers to be gone", func(m *record.Mirror) bool {
			return m.Node(home).Ack(id, g, f.nonce(id, g)).Stopped.Exists() && !m.Node(home).Ready[id].Exists()
		})
		time.Sleep(time.Second) // a leader that does not wait is done by then
		if s := f.mirror().Job(id).State.Value; s.Phase.Terminal() {
			t.Errorf("it is %s, and %v may live", s.Phase, f.parked(id, g+1))
		}
		if err := agent.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		f.endsWithNothingAlive(id, cluster.Stopped)
		f.nothingLeft(id)
	})
}

// endsWithNothingAlive waits for a job's end, and looks for its processes the moment that it is recorded.
func (f *fleet) endsWithNothingAlive(id cluster.JobID, phase cluster.Phase) {
	f.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s := f.mirror().Job(id).State.Value
		if s.Phase == phase {
			break
		}
		if time.Now().After(end) || s.Phase.Terminal() {
			f.t.Fatalf("waited for %s, and it is %s because %q", phase, s.Phase, s.Reason)
		}
	}
	for _, pid := range f.workers(id) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		f.t.Errorf("it is %s, and process %d lives: %q", phase, pid, strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
}
