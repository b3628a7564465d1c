package shim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/record"
)

func TestFailuresEndTheWorld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ how, reason string }{
		"exit status": {"exit 3", "exit status 3"},
		"signal":      {"kill -SEGV $$", "signal: segmentation fault"},
		"killed":      {"kill -KILL $$", "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, `
if [ $RANK = 0 ]; then echo up > up-0; while :; do sleep 1; done; fi
while ! [ -e up-0 ]; do sleep 0.01; done
for i in $(seq 30); do echo line $i; done
printf 'last \033[31mred\007 words\nunended'
`+c.how).start()
			f.await("the failure", func(r run.Report) bool { return r.Failed != nil })
			told := time.Now()
			r := f.stopped()
			if took := time.Since(told); took > agenttest.Patience/6 {
				t.Errorf("stopped %v after the failure was told", took)
			}
			if r.Failed == nil || r.Failed.Kind != record.WorkerFailed || r.Failed.Rank != 1 || !strings.HasPrefix(r.Failed.Reason, c.reason) {
				t.Fatalf("failed %+v", r.Failed)
			}
			tail := r.Failed.LogTail
			if len(tail) != logTailLines || tail[len(tail)-2] != "last [31mred words" || tail[len(tail)-1] != "unended" {
				t.Errorf("tail %q", tail)
			}
			if e := r.Stopped.Exits[0]; e.Signal != int(syscall.SIGKILL) || r.Stopped.Finished {
				t.Errorf("the other worker ended with %+v", e)
			}
			f.retire()
		})
	}
}

// escape leaves a process behind as daemons do: in a session of its own, with
// its parent gone and all inherited descriptors closed.
const escape = `
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        own = "escaped.%d" % os.getpid() # every rank writes one
        fd = os.open(own, os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"%d\n" % os.getpid())
        os.rename(own, "escaped")
        while True: time.sleep(1)
    os._exit(0)
while not os.path.exists("escaped"): time.sleep(0.01)
`

func (f *fixture) escaped() run.Process {
	f.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(f.awaitFile("escaped")))
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := proc.Identify(pid)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func TestEscapedChildrenDieWithTheWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").start()
	p := f.escaped()
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	if proc.Alive(p) {
		t.Error("the escaped process lives after Stopped")
	}
	f.retire()
}

func TestLeftoversAreNamedAndKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape).start()
	p := f.escaped()
	r := f.stopped()
	if proc.Alive(p) {
		t.Error("the leftover lives after Stopped")
	}
	if len(r.Leftover) != 1 || !strings.Contains(r.Leftover[0], strconv.Itoa(p.PID)) {
		t.Errorf("leftover %q, want process %d", r.Leftover, p.PID)
	}
	if !r.Stopped.Finished {
		t.Errorf("its worker had finished: %+v", r.Stopped)
	}
	f.retire()
}

func TestHelpersThatEndByThemselvesAreNoLeftovers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 0.2 & exit 0").start()
	r := f.stopped()
	if len(r.Leftover) > 0 || !r.Stopped.Finished {
		t.Errorf("leftover %q, stopped %+v", r.Leftover, r.Stopped)
	}
}

func TestAForkBombIsKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `
bomb() { while [ $(ls /proc | grep -c '^[0-9]') -lt 400 ]; do (bomb) & sleep 0.01; done; sleep 1000; }
echo up > up-0
bomb & bomb & wait; wait; sleep 1000`).start()
	f.awaitFile("up-0")
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

func TestAFailureBesideRunningExecutions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 8, "exit 9").start()
	r := f.stopped()
	if r.Failed == nil || r.Failed.Kind != record.WorkerFailed || r.Failed.Reason != "exit status 9" {
		t.Errorf("failed %+v", r.Failed)
	}
	f.retire()
}

func TestTheJournalSurvivesADiskThatRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo up > up-0; while ! [ -e go ]; do sleep 0.02; done; exit 5").start()
	f.awaitFile("up-0")
	f.shimWrites("a worker", func(r run.Report) bool { return r.Workers != nil })
	blocked := filepath.Join(f.dir, rundir.ReportFile+".spare")
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o755); err != nil { // a file cannot take its place
		t.Fatal(err)
	}
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go"), "", 0o644)
	r := f.stopped()
	if r.Failed == nil {
		t.Errorf("the agent was not told: %+v", r)
	}
	if r, err := rundir.ReadReport(f.dir); err != nil || r.Stopped != nil {
		t.Fatalf("a report was written all the same: this tests nothing: %+v, %v", r, err)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	f.shimWrites("the last report", func(r run.Report) bool { return r.Stopped != nil })
	f.retire()
}
