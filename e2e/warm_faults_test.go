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

// faultyScript says what it has read and how old it was when it read its rank, leaves a daemon behind, and trains. What a
// fault has changed, or has ended a process, parks the next one before it: so faults come from the last line to the first.
const faultyScript = `import os
import fails
import crashes
import helper
import sdk_minimal

RANK = os.environ["RANK"]
print("script %s:", helper.VALUE, os.environ["SET"], flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("daemon-" + os.environ["BELLOWS_GENERATION"], "w") as f:
            f.write(f"{os.getpid()}\n")
        import time
        time.sleep(100000)
    os._exit(0)
os.wait()
while os.path.exists("shut-start"):
    pass
sdk_minimal.main()
`

// faulty are the modules of faultyScript: one of its owner's that is changed, one whose import fails, and a package whose import
// ends the process, past any handler.
var faulty = map[string]string{
	"helper.py": "VALUE = 'one'\n",
	"fails.py": `import os
if os.path.exists("shut-fails"):
    raise ImportError("the helper fails")
`,
	"site-packages/crashes.py": `import faulthandler, os
try:
    os.stat("shut-crashes")
except FileNotFoundError:
    pass
else:
    faulthandler._sigsegv()
`,
}

// fault is what befalls a job whose next generation is prepared, and what becomes of the start after a worker is killed.
type fault struct {
	name   string
	before func()                     // while the generation trains, and the next one is not prepared yet
	then   func(g cluster.Generation) // once g is
	cold   string                     // why the next start is; empty: it is warm
	parked string                     // where the processes of a warm one were
	says   string                     // in its log
}

// What waits for a crash meets a fault, and then a worker is killed: the next one runs what its owner has
// written by then, warm where it may and executed where not, and the one after it is warm again. What the old one has left is gone.
func TestFaultsOfWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	f.withPackages(faulty)
	f.write("faulty.py", fmt.Sprintf(faultyScript, "1"))
	f.write("env", "SET=a\n")
	j := f.runs(f.sdkJob("faulty", 1, 1, 1<<30, 0.05, "--save-every", "10"), "faulty.py")
	j["env-file"], j["max-restarts"] = filepath.Join(f.dir, "env"), 100
	id := f.submit(j)
	var opened func()
	const rank = "faulty.py:7 (reads RANK)"
	for _, c := range []fault{
		{name: "none", says: "script 1: one a", parked: rank},
		{
			name: "the parked process dies", cold: "has ended", says: "script 1: one a",
			then: func(g cluster.Generation) {
				for _, pid := range f.parked(id, g) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				f.await("n1 to miss it", func(*record.Mirror) bool { return len(f.said("n1", id, g)) == 3 })
			},
		},
		{name: "none any more", says: "script 1: one a", parked: rank},
		{
			name: "the environment file changes", cold: "its environment has changed since it was parked", says: "script 1: one b",
			then: func(cluster.Generation) { f.write("env", "SET=b\n") },
		},
		{
			name: "a module changes", cold: "helper.py has changed since it was read", says: "script 1: the number two b",
			then: func(cluster.Generation) { f.write("helper.py", "VALUE = 'the number two'\n") },
		},
		{name: "a module has changed once", says: "script 1: the number two b", parked: "faulty.py:4 (imports helper)"},
		{
			name: "the module changes again", cold: "helper.py has changed since it was read", says: "script 1: the number three b",
			then: func(cluster.Generation) { f.write("helper.py", "VALUE = 'the number three'\n") },
		},
		{
			name: "it ends while it runs ahead", cold: "it has ended before it was parked while it imported crashes", says: "script 1: the number three b",
			before: func() { opened = f.shut("crashes") }, then: func(cluster.Generation) { opened() },
		},
		{name: "it has ended once", says: "script 1: the number three b", parked: "faulty.py:3 (imports crashes)"},
		{
			name: "an import that has worked fails while it runs ahead", cold: "shut-fails has changed since it was read", says: "script 1: the number three b",
			before: func() { opened = f.shut("fails") }, then: func(cluster.Generation) { opened() },
		},
	} {
		f.befalls(id, c)
	}
	f.importFails(id)
	f.befalls(id, fault{
		name: "the script changes", cold: "faulty.py has changed since it was read", says: "script 2: the number three b",
		then: func(cluster.Generation) { f.write("faulty.py", fmt.Sprintf(faultyScript, "2")) },
	})
	f.befalls(id, fault{name: "the script has changed once", says: "script 2: the number three b", parked: "its begin (looks at "})
	f.diesAtItsStart(id)
	f.parkedIsTooLarge(id)
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	oneWorldAtATime(t, f.trace("faulty"))
	batches(t, f.trace("faulty")) // no sample is missing
}

// befalls has a fault happen, and a worker be killed.
func (f *fleet) befalls(id cluster.JobID, c fault) {
	f.t.Helper()
	g := f.settled(id, 1)
	daemon := f.pidIn(fmt.Sprintf("daemon-%d", g))
	if c.before != nil {
		c.before()
	}
	f.prepared(id, g+1, 1)
	if c.then != nil {
		c.then(g + 1)
	}
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	f.awaitRunning(id, 1, g)
	started := f.mirror().Node("n1").Ack(id, g+1, f.nonce(id, g+1)).Started.Value
	if started.Warm != (c.cold == "") || !strings.Contains(started.Cold, c.cold) || !strings.Contains(started.Parked, c.parked) {
		f.t.Errorf("%s: generation %d started warm: %v, from %q, or cold: %q", c.name, g+1, started.Warm, started.Parked, started.Cold)
	}
	if f.settled(id, 1) != g+1 {
		f.t.Errorf("%s: another generation than %d runs", c.name, g+1)
	}
	if log, _, _ := f.bellows("logs", string(id), "--generation", fmt.Sprint(g+1)); strings.Count(log, "script ") != 1 || !strings.Contains(log, c.says) {
		f.t.Errorf("%s: generation %d says %q", c.name, g+1, log)
	}
	if err := syscall.Kill(daemon, 0); err == nil {
		f.t.Errorf("%s: the daemon of generation %d lives", c.name, g)
	}
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

// importFails has an import fail in the process that runs ahead and in the worker, which has worked before: the job fails as if
// the worker had been executed, and says of what, until the import works again.
func (f *fleet) importFails(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 1)
	opened := f.shut("fails")
	f.prepared(id, g+1, 1)
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	f.awaitShown(id, "why it fails", func(s api.JobStatus) bool {
		return s.Failure != nil && slices.Contains(s.Failure.LogTail, "ImportError: the helper fails")
	})
	if started := f.mirror().Node("n1").Ack(id, g+1, f.nonce(id, g+1)).Started.Value; !started.Warm {
		f.t.Errorf("generation %d started cold: %s", g+1, started.Cold)
	}
	opened()
	// A generation that began before that runs for a moment, and fails as well.
	f.awaitLine("faulty", "a step since the import works again", func(l traceLine) bool { return l.Generation > int(g+1) })
}

// diesAtItsStart has a worker die after its release and before its first step: the next start is cold at once, with what is
// prepared again afterwards, and not charged; and that is said.
func (f *fleet) diesAtItsStart(id cluster.JobID) {
	f.t.Helper()
	g := f.settled(id, 1)
	f.prepared(id, g+1, 1)
	opened := f.shut("start")
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	f.awaitRunning(id, 1, g)
	f.pidIn(fmt.Sprintf("daemon-%d", g+1)) // it has read its rank
	if !f.mirror().Node("n1").Ack(id, g+1, f.nonce(id, g+1)).Started.Value.Warm {
		f.t.Errorf("generation %d started cold", g+1)
	}
	charged := f.mirror().Job(id).State.Value.Restarts
	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL)
	opened()
	f.awaitRunning(id, 1, g+1)
	if now := f.settled(id, 1); now != g+2 {
		f.t.Errorf("generation %d trains, want %d", now, g+2)
	}
	s := f.mirror().Job(id).State.Value
	started := f.mirror().Node("n1").Ack(id, g+2, f.nonce(id, g+2)).Started.Value
	const why = "its warm start failed before the first step"
	if started.Warm || s.Restarts != charged || !strings.Contains(s.Reason.String(), "started cold: "+why) {
		f.t.Errorf("generation %d started warm: %v, restarts are %d, were %d, because %q", g+2, started.Warm, s.Restarts, charged, s.Reason)
	}
	if shown := f.show(id).Members[0]; shown.Warm || !strings.HasPrefix(shown.Cold, why) {
		f.t.Errorf("shown of it: %+v", shown)
	}
}

// parkedIsTooLarge has the agent be started anew with less memory for what is parked than one process needs: what it has prepared
// from then on starts cold.
func (f *fleet) parkedIsTooLarge(id cluster.JobID) {
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
	if said := f.said("n1", id, g+1); len(said) != 2 || said[0] != "begun" || !strings.Contains(said[1], "memory") {
		f.t.Errorf("n1 may have 4 MiB for what is parked, and has said: %q", said)
	}
}
