package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// says runs a command that is to end with a status and certain words.
func (u *people) says(code int, words []string, args ...string) {
	u.t.Helper()
	out, errs, got := u.patiently(args...) // no test has it say that nothing answers
	if got != code || !containsAll(out+errs, words...) {
		u.t.Errorf("bellows %s: exit %d, want %d, and %q in: %s%s", strings.Join(args, " "), got, code, words, out, errs)
	}
}

// ordinaryJob submits a job that trains on and saves, as the ordinary user.
func (u *people) ordinaryJob(name string, more ...string) cluster.JobID {
	u.t.Helper()
	args := append([]string{"run", "-d", "--name", name, "--workdir", u.dir, "--checkpoint-dir", u.owned("ckpt-"+name, ordinary)}, more...)
	s := u.as(ordinary, append(args, "--", python, example(u.t, "sdk_minimal.py"), "--steps", "100000000", "--worker-seconds", "0.05", "--save-every", "20")...)
	if s.wait() != 0 {
		u.t.Fatal(s.said())
	}
	return cluster.JobID(strings.TrimSpace(s.out.String()))
}

// awaitRunning waits until a job runs with so many workers, in a generation after one.
func (r *records) awaitRunning(id cluster.JobID, workers int, after cluster.Generation) cluster.Generation {
	r.t.Helper()
	m := r.await(fmt.Sprintf("%s to run with %d workers after generation %d", id, workers, after), func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Phase == cluster.Running && s.Generation > after && m.Job(id).Generation(s.Generation).Plan.Value.World.Size() == workers
	})
	return m.Job(id).State.Value.Generation
}

// lostNothing checks that no change of size cost a step.
func (u *people) lostNothing(id cluster.JobID) {
	u.t.Helper()
	for _, r := range u.show(id).Rescales {
		if r.LostSteps != 0 {
			u.t.Errorf("generation %d of %s lost %d steps", r.Generation, id, r.LostSteps)
		}
	}
}

// Who may scale, stop and resume a job: its owner, and root; and what becomes of bounds that cannot be.
func TestScaleStopAndResumeByWhom(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{devices: 4, policy: "share", interval: 300 * time.Millisecond})
	id := f.ordinaryJob("mine", "--min", "1", "--max", "2")
	g := f.awaitRunning(id, 2, 0)

	before := f.mirror().Job(id)
	for _, verb := range [][]string{{"scale", "mine", "--max", "4"}, {"stop", "mine"}, {"resume", "mine"}} {
		s := f.as(stranger, verb...)
		if code := s.wait(); code != 1 || !strings.Contains(s.said(), "belongs to "+ordinaryName+": only its owner or root may "+verb[0]+" it") {
			t.Errorf("%v by a stranger: exit %d, %s", verb, code, s.said())
		}
	}
	f.says(1, []string{`there is no job "absent"`}, "scale", "absent", "--max", "4")
	f.says(2, []string{"--min, --max, --time-limit: give at least one of them"}, "scale", "mine")
	f.says(2, []string{"--min 0: use 1 or more"}, "scale", "mine", "--min", "0")
	f.says(2, []string{"--max -1: use 1 or more"}, "scale", "mine", "--max", "-1")
	f.says(2, []string{"min workers 8 is above max workers 2: swap them, or raise the maximum"}, "scale", "mine", "--min", "8")
	f.says(2, []string{"no power of two lies between them"}, "scale", "mine", "--min", "3", "--max", "3")
	f.says(2, []string{"is running: only a stopped, failed or held job can be resumed"}, "resume", "mine")
	after := f.mirror().Job(id)
	if after.Wanted.Value != before.Wanted.Value || after.State.Value.Generation != g {
		t.Errorf("what was refused changed something: %+v, then %+v", before.Wanted.Value, after.Wanted.Value)
	}

	if s := f.as(ordinary, "scale", "mine", "--max", "4"); s.wait() != 0 { // its owner
		t.Errorf("by its owner: %s", s.said())
	}
	g = f.awaitRunning(id, 4, g)
	f.mustBellows("scale", "mine", "--min", "1", "--max", "1") // root
	g = f.awaitRunning(id, 1, g)
	f.mustBellows("scale", "mine", "--max", "64") // more than there is
	g = f.awaitRunning(id, 4, g)
	f.lostNothing(id)

	// A minimum that no cluster of this size has: it saves and waits, and says for what.
	f.mustBellows("scale", "mine", "--min", "8")
	status := f.awaitShown(id, "that it waits for devices", func(s api.JobStatus) bool { return !s.Phase.Active() })
	if status.Phase != cluster.Queued || status.MinWorkers != 8 || status.WhyPending == "" {
		t.Errorf("%s for %d workers or more, because %q", status.Phase, status.MinWorkers, status.WhyPending)
	}
	f.mustBellows("scale", "mine", "--min", "1", "--max", "2")
	g = f.awaitRunning(id, 2, g)
	f.lostNothing(id)

	if s := f.as(ordinary, "stop", "-w", "mine"); s.wait() != 1 && s.wait() != 0 {
		t.Errorf("stop by its owner: %s", s.said())
	}
	f.awaitPhase(id, cluster.Stopped)
	s := f.as(stranger, "resume", "mine")
	if s.wait() != 1 || !strings.Contains(s.said(), "only its owner or root may resume it") {
		t.Errorf("resume by a stranger: %s", s.said())
	}
	kept := f.mirror().Job(id).Committed.Value.Step
	if s := f.as(ordinary, "resume", "mine"); s.wait() != 0 || !strings.Contains(s.said(), fmt.Sprintf("goes on from step %d", kept)) {
		t.Errorf("resume by its owner, with step %d: %s", kept, s.said())
	}
	f.awaitRunning(id, 2, g)
	f.mustBellows("stop", "-w", "mine")
	f.awaitPhase(id, cluster.Stopped)
	f.mustBellows("resume", "--from-start", "mine") // root
	f.await("it to begin anew", func(m *record.Mirror) bool {
		v := m.Job(id)
		p := v.Generation(v.State.Value.Generation).Plan.Value
		return v.State.Value.Phase == cluster.Running && p.Resume == nil
	})
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
}

// freeze stops a worker of a generation, so that a halt, which waits for the end
// of a step, lasts until it is thawed.
func (f *fleet) freeze(id cluster.JobID, g cluster.Generation) (thaw func()) {
	f.t.Helper()
	pid := f.mirror().Node("n1").Ack(id, g, f.nonce(id, g)).Started.Value.Workers[0].PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			f.t.Error(err)
		}
	}
}

// New bounds in the middle of a change of size count for the next one, and the
// job is not torn between the two.
func TestScaleWhileHalting(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{devices: 4, policy: "share", interval: 300 * time.Millisecond})
	id := f.submit(f.sdkJob("a", 1, 4, 1<<30, 0.4))
	g := f.awaitRunning(id, 4, 0)
	f.awaitStep("a", 1, 4)
	thaw := f.freeze(id, g)
	f.mustBellows("scale", "a", "--max", "2")
	f.awaitPhase(id, cluster.Halting)
	f.mustBellows("scale", "a", "--max", "1") // while it is to save
	thaw()
	g = f.awaitRunning(id, 1, g)
	f.awaitStep("a", f.lastStep("a"), 1)
	thaw = f.freeze(id, g)
	f.mustBellows("scale", "a", "--max", "4")
	f.awaitPhase(id, cluster.Halting)
	f.mustBellows("stop", "a") // and something else altogether
	thaw()
	f.awaitPhase(id, cluster.Stopped)
	if s := f.mirror().Job(id).State.Value; s.Generation > g+1 {
		t.Errorf("a stop while halting started generation %d after %d", s.Generation, g)
	}
	f.mustBellows("resume", "a")
	f.awaitRunning(id, 4, g)
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.lostNothing(id)
	f.nothingLeft(id)
}

// A request without a leader is kept, and carried out once there is one.
func TestVerbsWithoutALeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "share", interval: 300 * time.Millisecond})
	a, b, c := f.submit(f.sdkJob("a", 1, 1, 1<<30, 0.05)), f.submit(f.sdkJob("b", 1, 1, 1<<30, 0.05)), f.submit(f.sdkJob("c", 1, 1, 1<<30, 0.05))
	for _, id := range []cluster.JobID{a, b, c} {
		f.awaitRunning(id, 1, 0)
	}
	f.awaitStep("c", 5, 1)
	f.mustBellows("stop", "-w", "c")
	f.awaitPhase(c, cluster.Stopped)
	f.kill("coordinator-1")
	f.await("the dead leader's key to go", func(m *record.Mirror) bool { return len(m.Leaders) == 0 })
	f.mustBellows("scale", "a", "--max", "2")
	f.mustBellows("stop", "b")
	f.mustBellows("resume", "c")
	f.mustBellows("drain", "n2", "--reason", "new fans")
	if s := f.mirror().Job(b).State.Value; s.Phase != cluster.Running {
		t.Errorf("without a leader b is %s", s.Phase)
	}
	f.startCoordinator(2)
	f.awaitPhase(b, cluster.Stopped)
	f.await("a on two devices of n1, or c there with it, and n2 drained", func(m *record.Mirror) bool {
		for _, id := range []cluster.JobID{a, c} {
			v := m.Job(id)
			if v.State.Value.Phase != cluster.Running {
				return false
			}
			for _, member := range v.Generation(v.State.Value.Generation).Plan.Value.World.Members {
				if member.Node != "n1" {
					return false
				}
			}
		}
		return true
	})
	f.says(0, []string{"drained", "new fans"}, "nodes")
	f.mustBellows("stop", "c")
	f.awaitRunning(a, 2, 1)
	f.lostNothing(a)
	f.mustBellows("stop", "-w", "a")
	f.nothingLeft(a)
}

// Draining: by whom, of which, of the only one, in the middle of a start.
func TestDrain(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{devices: 2, policy: "share", interval: 300 * time.Millisecond})
	id := f.submit(f.sdkJob("a", 1, 2, 1<<30, 0.05))
	g := f.awaitRunning(id, 2, 0)
	f.awaitStep("a", 5, 2)

	for _, verb := range []string{"drain", "undrain"} {
		s := f.as(ordinary, verb, "n1")
		if s.wait() != 1 || !strings.Contains(s.said(), "only root and root (uid 0), whom this agent runs as, may take nodes out of service; you are "+ordinaryName+" (uid 65534)") &&
			!strings.Contains(s.said(), "only root may take nodes out of service; you are "+ordinaryName+" (uid 65534)") {
			t.Errorf("%s by the ordinary user: %s", verb, s.said())
		}
	}
	f.says(1, []string{`there is no node "n9": `}, "drain", "n9")
	f.says(2, []string{"node n1 is not drained"}, "undrain", "n1")
	f.says(2, []string{"node n1 is alive", "drain it without --down"}, "drain", "n1", "--down")
	if s := f.mirror().Job(id).State.Value; s.Generation != g || s.Phase != cluster.Running {
		t.Errorf("what was refused changed something: %+v", s)
	}

	// The only node: its job saves, and waits for it.
	f.mustBellows("drain", "n1", "--reason", "new fans")
	f.mustBellows("drain", "n1", "--reason", "new fans and a lid") // again, with another reason
	status := f.awaitShown(id, "that it waits", func(s api.JobStatus) bool { return !s.Phase.Active() && strings.Contains(s.Reason, "and a lid") })
	if !strings.Contains(status.Reason, "(n1 is drained: new fans and a lid)") {
		t.Errorf("it waits, because %q %v", status.Reason, status.WhyPending)
	}
	f.nothingLeft(id)
	f.says(0, []string{"drained", "new fans and a lid"}, "nodes")
	f.mustBellows("undrain", "n1")
	f.awaitRunning(id, 2, g)
	f.lostNothing(id)

	f.mustBellows("stop", "-w", "a")

	// In the middle of a start: the agent is slow with it, and another node has room.
	f.startAgent(2)
	f.await("n2", func(m *record.Mirror) bool { return m.Node("n2").Alive.Exists() && m.Node("n2").Inventory.Exists() })
	f.mustBellows("drain", "n2")
	agent := f.procs["agent-n1"].cmd.Process
	defer agent.Signal(syscall.SIGCONT) //nolint:errcheck // it may be gone
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	out, errs, code := f.bellowsOn(2, "run", "-d", "--max", "1", "--workdir", f.dir, "--checkpoint-dir", f.dir+"/fresh", "--", f.script("fresh.sh", patient))
	if code != 0 {
		t.Fatal(errs)
	}
	fresh := cluster.JobID(strings.TrimSpace(out))
	f.awaitPhase(fresh, cluster.Starting)
	for _, verb := range [][]string{{"undrain", "n2"}, {"drain", "n1"}} {
		if _, errs, code := f.bellowsOn(2, verb...); code != 0 {
			t.Fatalf("%v: %s", verb, errs)
		}
	}
	if err := agent.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m := f.await("the new job on n2, and nothing on n1", func(m *record.Mirror) bool {
		v := m.Job(fresh)
		members := v.Generation(v.State.Value.Generation).Plan.Value.World.Members
		return len(m.Node("n1").Grants) == 0 && v.State.Value.Phase == cluster.Running && members[0].Node == "n2"
	})
	if s := m.Job(fresh).State.Value; s.Restarts != 0 {
		t.Errorf("a drain was charged: %+v", s)
	}
	f.mustBellows("undrain", "n1")
	f.stop(fresh)
	f.awaitPhase(fresh, cluster.Stopped)
	f.nothingLeft(fresh)
}
