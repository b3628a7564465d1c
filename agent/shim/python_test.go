package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// interpreter is the interpreter that tests run: the system's, which starts ten times sooner than what a
// manager of versions puts before it on PATH.
func interpreter(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no python3 on PATH: scripts/setup test installs it")
	return ""
}

// pyScript makes of a fixture a run of a Python script in its workdir.
func (f *fixture) pyScript(source string) {
	f.t.Helper()
	agenttest.Write(f.t, filepath.Join(f.order.Workdir, "train.py"), source, 0o644)
	f.order.Command = []string{interpreter(f.t), "train.py", "--lr", "0.1"}
	f.order.Env["PATH"] = os.Getenv("PATH")
	f.order.Env["HOME"] = f.root
	f.order.LearnedFile = filepath.Join(f.root, "learned.json")
}

// ranScript imports helper.py, parks where it reads its rank, and says what it has seen.
const ranScript = `
import os, helper
print("value", helper.VALUE)
print("rank", os.environ["RANK"], "parked", getattr(helper, "PARKED", ""))
`

// readyRun starts a prepared run of a script beside which helper.py lies, and demands that a process is parked for each rank.
func readyRun(t *testing.T, ranks int, script, helper string) (f *fixture, plan run.Order) {
	t.Helper()
	f = newFixture(t, ranks, "")
	f.pyScript(script)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "helper.py"), helper, 0o644)
	plan = f.prepares(func(p *run.Prepare) { p.Workers = ranks })
	f.ready(ranks)
	return f, plan
}

// prepares makes of a fixture a prepared run with such a preparation, and returns its plan.
func (f *fixture) prepares(how func(*run.Prepare)) (plan run.Order) {
	f.t.Helper()
	plan = f.prepared()
	how(f.order.Prepare)
	plan.Prepare = f.order.Prepare
	return plan
}

// ready starts a prepared run, and demands that so many processes are parked.
func (f *fixture) ready(n int) run.Report {
	f.t.Helper()
	r := f.startPrepared()
	if !r.Prepared.Ready || r.Prepared.Workers != n || r.Prepared.Memory == 0 || len(f.ahead()) != n {
		f.t.Fatalf("prepared %+v, processes %v, want %d parked", r.Prepared, f.ahead(), n)
	}
	return r
}

// ahead finds what runs ahead, or is parked, by what all of a run's processes are found by.
func (f *fixture) ahead() (found []run.Process) {
	f.t.Helper()
	for _, pid := range agenttest.Named(f.t, f.dir) {
		s, err := proc.ReadStat(pid)
		if err != nil || s.PPID != f.shim.PID {
			continue
		}
		if p, err := proc.Identify(s.PID); err == nil { // else it has just ended
			found = append(found, p)
		}
	}
	return found
}

// killParked kills one of the parked processes, and waits until it is missed.
func (f *fixture) killParked() run.Report {
	f.t.Helper()
	all := f.ahead()
	if len(all) == 0 {
		f.t.Fatal("nothing is parked")
	}
	if err := unix.Kill(all[len(all)-1].PID, unix.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	return f.await("cold", func(r run.Report) bool { return r.Prepared.Cold != "" })
}

// startCold carries the plan out, and demands that each worker was executed, once, for that reason.
func (f *fixture) startCold(plan run.Order, why string) run.Report {
	f.t.Helper()
	f.bind(plan)
	f.push(run.Wish{Start: true})
	r := f.started()
	if r.Warm || r.Prepared == nil || !strings.Contains(r.Prepared.Cold, why) || r.Prepared.Ready {
		f.t.Fatalf("warm %v, prepared %+v, want cold: %s", r.Warm, r.Prepared, why)
	}
	return r
}

// startWarm carries the plan out, and demands that parked processes went on.
func (f *fixture) startWarm(plan run.Order) run.Report {
	f.t.Helper()
	before := f.ahead()
	f.bind(plan)
	f.push(run.Wish{Start: true})
	r := f.started()
	if !r.Warm || r.Prepared == nil || r.Prepared.Cold != "" {
		f.t.Fatalf("warm %v, prepared %+v", r.Warm, r.Prepared)
	}
	for i := range min(len(before), len(r.Workers)) {
		if !slices.Contains(before, f.worker(r, i)) {
			f.t.Errorf("worker %d is %+v, and parked were %+v", i, f.worker(r, i), before)
		}
	}
	return r
}

// ended waits for the end of a script that fails not, and returns the log of a rank.
func (f *fixture) ended(rank int) string {
	f.t.Helper()
	if r := f.stopped(); !r.Stopped.Finished || r.Failed != nil {
		f.t.Errorf("stopped %+v, failed %+v", r.Stopped, r.Failed)
	}
	f.retire()
	return f.read("logs", "rank-"+strconv.Itoa(rank)+".log")
}

// kill ends a run that has shown what it was to show.
func (f *fixture) kill() {
	f.t.Helper()
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}
