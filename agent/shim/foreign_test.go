package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// foreign fills the workdir with modules of another user: each name of the standard library's, and those that Bellows and
// Python itself look for. One that runs leaves its name in a file, which foreign returns.
func (f *fixture) foreign() (ran string) {
	f.t.Helper()
	f.root = realpath(f.t, f.root)
	marks := filepath.Join(f.root, "marks")
	if err := os.Mkdir(marks, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chmod(marks, 0o777); err != nil { //nolint:gosec // each user that runs one leaves a mark
		f.t.Fatal(err)
	}
	ran = filepath.Join(marks, "ran")
	list, err := exec.Command(interpreter(f.t), "-I", "-c", "import sys; print(*sys.stdlib_module_names)").Output()
	names := strings.Fields(string(list))
	if err != nil || len(names) < 200 {
		f.t.Skipf("this Python does not list its modules: %d, %v", len(names), err)
	}
	names = append(names, "bellows", "bellows_launcher", "bellows_ahead", "bellows_early", "bellows_leave", "bellows_check", "bellows_verify", "sitecustomize", "usercustomize", "torch", "numpy", "jax")
	for _, name := range names {
		f.writes(name+".py", "import posix\nposix.write(posix.open('"+ran+"', posix.O_CREAT | posix.O_WRONLY | posix.O_APPEND, 0o666), __name__.encode() + b'\\n')\n")
	}
	return ran
}

func realpath(t *testing.T, path string) string {
	t.Helper()
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// No code of the working directory runs that `python3 /elsewhere/train.py` would not run: not in a worker that is
// executed, nor in one that is parked and released, nor in the interpreter that is tried before; as root and as a user.
func TestNoForeignCodeRuns(t *testing.T) {
	t.Parallel()
	const script = `
import sys, os, json, random, threading, logging
print("path", [p for p in sys.path if p == "" or os.path.realpath(p) == os.getcwd()])
print("rank", os.environ["RANK"])
import bellows, socket, uuid, ctypes, multiprocessing
print("bellows", os.path.basename(os.path.dirname(bellows.__file__)))
`
	for name, owner := range map[string]cluster.Owner{"root": {User: "root"}, "user": {UID: 1, GID: 1, User: "daemon"}} {
		for _, how := range []string{"cold", "warm"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				agenttest.NeedsRoot(t)
				f := newFixture(t, 1, "")
				if how == "cold" {
					f.repeats()
				}
				ran := f.foreign()
				elsewhere := filepath.Join(f.root, "elsewhere", "train.py")
				agenttest.Write(t, elsewhere, script, 0o644)
				f.pyScript("")
				f.giveTo(owner.UID, owner.GID)
				f.order.Owner = owner
				f.order.Command = []string{"/usr/bin/python3", elsewhere} // which any user may execute
				if how == "warm" {
					plan := f.prepares(func(*run.Prepare) {})
					if r := f.ready(1); r.Prepared.Parked != elsewhere+":4 (reads RANK)" {
						t.Errorf("parked at %q", r.Prepared.Parked)
					}
					if b, err := os.ReadFile(ran); err == nil {
						t.Errorf("ran before the start:\n%s", b)
					}
					f.startWarm(plan)
				} else {
					f.start()
				}
				if log := f.ended(0); log != "path []\nrank 0\nbellows "+run.PythonDir+"\n" {
					t.Errorf("log:\n%s", log)
				}
				if b, err := os.ReadFile(ran); err == nil {
					t.Errorf("ran:\n%s", b)
				}
			})
		}
	}
}
