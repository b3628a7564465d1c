package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// faultyHelper is imported by the workers, or by their launcher. A test has its import fail, or what is forked of a
// launcher wait before it becomes a worker.
const faultyHelper = `import os, sys, time
WHERE = os.getpid()
VALUE = "%s"

def forked():
    while sys._getframe(1).f_code.co_name == "fork_all" and os.path.exists("shut-forks"):
        time.sleep(0.01)

if os.path.exists("shut-helper"):
    raise ImportError("the helper fails")
os.register_at_fork(after_in_child=forked)
`

// faultyScript says who has imported the helper and what it has read, leaves a daemon behind, and runs the script that it is given.
const faultyScript = `import os, runpy, sys, time
import helper
print("%s:", helper.VALUE, os.environ["SET"], "imported by", "the worker" if helper.WHERE == os.getpid() else "the launcher", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("daemon-" + os.environ["BELLOWS_GENERATION"], "w") as f:
            f.write(f"{os.getpid()}\n")
        time.sleep(100000)
    os._exit(0)
os.wait()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
`

// diedForked is why a start is cold of whose forked workers the first is gone before it is a worker.
const diedForked = "adopt forked worker 0: "

// What waits for a crash meets a fault, and then a worker is killed: the next one runs what its owner has
// written by then, forked where it may be and executed where not. What the old one has left is gone.
func TestFaultsOfWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("helper.py", fmt.Sprintf(faultyHelper, "one"))
	write("faulty.py", fmt.Sprintf(faultyScript, "script 1"))
	write("env", "SET=a\n")
	j := f.sdkJob("faulty", 1, 1, 1<<30, 0.05, "--save-every", "10")
	command := j["command"].([]string)
	j["command"], j["env-file"], j["max-restarts"] = append([]string{command[0], "faulty.py"}, command[1:]...), filepath.Join(f.dir, "env"), 100
	id := f.submit(j)
	opened := func() {}
	for _, c := range []struct {
		fault  string
		before func()                     // while the generation trains, and the next one is not prepared yet
		then   func(g cluster.Generation) // once g is
		cold   string                     // why the next start is
		says   string
	}{
		{fault: "none", says: "script 1: one a imported by the launcher"},
		{
			fault: "the launcher dies", cold: "has ended", says: "script 1: one a imported by the worker",
			then: func(g cluster.Generation) {
				for _, pid := range f.launchers(id) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				f.await("n1 to miss its launcher", func(*record.Mirror) bool { return len(f.said("n1", id, g)) == 2 })
			},
		},
		{
			fault: "a module changes", cold: "helper.py has changed since it was read", says: "script 1: the number two a imported by the worker",
			then: func(cluster.Generation) { write("helper.py", fmt.Sprintf(faultyHelper, "the number two")) },
		},
		{
			fault: "the environment file changes", cold: "its environment has changed since its launcher was started",
			says: "script 1: the number two b imported by the worker", then: func(cluster.Generation) { write("env", "SET=b\n") },
		},
		{
			fault: "the script changes", says: "script 2: the number two b imported by the launcher",
			then: func(cluster.Generation) { write("faulty.py", fmt.Sprintf(faultyScript, "script 2")) },
		},
		{
			fault: "the worker dies between fork and script", cold: diedForked, says: "script 2: the number two b imported by the worker",
			then: func(cluster.Generation) { opened = f.shut("forks") },
		},
		{
			fault: "an import that has worked fails in the launcher", says: "script 2: the number two b imported by the worker",
			before: func() { opened = f.shut("helper") }, then: func(cluster.Generation) { opened() },
		},
	} {
		g := f.settled(id, 1)
		daemon := f.pidIn(fmt.Sprintf("daemon-%d", g))
		if c.before != nil {
			c.before()
		}
		f.prepared(id, g+1, 1)
		if c.then != nil {
			c.then(g + 1)
		}
		before := f.workers(id)
		_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
		if c.cold == diedForked {
			f.killForked(id, before)
			opened()
		}
		f.awaitRunning(id, 1, g)
		started := f.mirror().Node("n1").Ack(id, g+1, f.nonce(id, g+1)).Started.Value
		if started.Warm != (c.cold == "") || !strings.Contains(started.Cold, c.cold) {
			t.Errorf("%s: generation %d started warm: %v, or cold: %q", c.fault, g+1, started.Warm, started.Cold)
		}
		if f.settled(id, 1) != g+1 {
			t.Errorf("%s: another generation than %d runs", c.fault, g+1)
		}
		if log, _, _ := f.bellows("logs", string(id), "--generation", fmt.Sprint(g+1)); !strings.Contains(log, c.says) {
			t.Errorf("%s: generation %d says %q", c.fault, g+1, log)
		}
		if err := syscall.Kill(daemon, 0); err == nil {
			t.Errorf("%s: the daemon of generation %d lives", c.fault, g)
		}
	}
	f.importFails(id)
	f.launcherIsTooLarge(id)
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	oneWorldAtATime(t, f.trace("faulty"))
	batches(t, f.trace("faulty")) // no sample is missing
}

// launchers are the processes of a job that are none of its generation's: those that wait, and what is forked of them.
func (f *fleet) launchers(id cluster.JobID) []int {
	f.t.Helper()
	left := []int{f.pidIn(fmt.Sprintf("daemon-%d", f.mirror().Job(id).State.Value.Generation))}
	for _, w := range f.started(id) {
		left = append(left, w.PID)
	}
	return slices.DeleteFunc(f.workers(id), func(pid int) bool { return slices.Contains(left, pid) })
}

// pidIn is a process's number that a script writes into a file.
func (p *place) pidIn(name string) (pid int) {
	p.t.Helper()
	p.eventually(name+" to name a process", func() bool {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

// killForked kills what is forked of a launcher, before it is a worker.
func (f *fleet) killForked(id cluster.JobID, but []int) {
	f.t.Helper()
	f.eventually("a worker to be forked", func() bool {
		forked := slices.DeleteFunc(f.workers(id), func(pid int) bool { return slices.Contains(but, pid) })
		for _, pid := range forked {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(forked) > 0
	})
}

// importFails has an import fail in the launcher and in the worker, which has worked before: the job fails as if
// the worker had been executed, and says of what, until the import works again.
func (f *fleet) importFails(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 1)
	opened := f.shut("helper")
	f.prepared(id, g+1, 1)
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	f.awaitShown(id, "why it fails", func(s api.JobStatus) bool {
		return s.Failure != nil && slices.Contains(s.Failure.LogTail, "ImportError: the helper fails")
	})
	if started := f.mirror().Node("n1").Ack(id, g+1, f.nonce(id, g+1)).Started.Value; !started.Warm {
		f.t.Errorf("generation %d started cold: %s", g+1, started.Cold)
	}
	opened()
	f.awaitRunning(id, 1, g+1)
}

// launcherIsTooLarge has the agent be started anew with less memory for launchers than one needs: what it has prepared
// from then on starts cold.
func (f *fleet) launcherIsTooLarge(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 1)
	f.prepared(id, g+1, 1)
	f.kill("agent-n1")
	f.startAgent(1, "--launcher-memory", "4MiB")
	f.awaitReady(1)
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	g = f.awaitRunning(id, 1, g)
	f.settled(id, 1)
	f.prepared(id, g+1, 1)
	if said := f.said("n1", id, g+1); len(said) != 1 || !strings.Contains(said[0], "memory") {
		f.t.Errorf("n1 may have 4 MiB for launchers, and has said: %q", said)
	}
}
