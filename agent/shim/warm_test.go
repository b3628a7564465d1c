package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	write(f.t, filepath.Join(f.order.Workdir, "train.py"), source, 0o644)
	f.order.Command = []string{interpreter(f.t), "train.py", "--lr", "0.1"}
	f.order.Env["PATH"] = os.Getenv("PATH")
	f.order.Env["HOME"] = f.root
	f.order.ModulesFile = filepath.Join(f.root, "modules.json")
}

func TestWorkersAreForked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript(`
import os, sys
print("rank", os.environ["RANK"], "json" in sys.modules, __name__, sys.argv)
import time
while os.environ["RANK"] == "1" and not os.path.exists("go"): time.sleep(0.01)
sys.exit(3 if os.environ["RANK"] == "1" else 0)
`)
	plan := f.prepared()
	f.order.Prepare.Modules = []string{"json"}
	r := f.startPrepared()
	if !r.Prepared.Ready || r.Prepared.Memory == 0 {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	f.bind(plan)
	f.push(Wish{Start: true})
	if r = f.started(); !r.Warm {
		t.Fatalf("report %+v", r)
	}
	eventually(t, "rank 0 has ended", func() bool { return !Alive(f.worker(r, 0)) })
	write(t, filepath.Join(f.order.Workdir, "go"), "", 0o644)
	r = f.stopped()
	if len(r.Stopped.Exits) != 2 || r.Stopped.Exits[0].Code != 0 || r.Stopped.Exits[1].Code != 3 {
		t.Errorf("exits %+v", r.Stopped.Exits)
	}
	for rank, want := range []string{"rank 0", "rank 1"} {
		if log := f.read("logs", "rank-"+itoa(rank)+".log"); !strings.Contains(log, want+" True __main__ ['train.py', '--lr', '0.1']") {
			t.Errorf("log of rank %d: %s", rank, log)
		}
	}
	f.retire()
}
