package shim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
)

// Scripts are parked before they look at, or change, what a plan, another process or the moment decides. The tables are
// in sdk/tests/test_ahead.py; this is one of each kind, through the shim.
func TestWhereScriptsAreParked(t *testing.T) {
	t.Parallel()
	const whole = "reads the whole environment"
	for name, c := range map[string]struct{ line, why string }{
		"one variable":       {"x = os.environ.get('RANK')", "reads RANK"},
		"all variables":      {"x = dict(os.environ)", whole},
		"a deep copy":        {"import copy; x = copy.deepcopy(os.environ)", whole},
		"a variable is set":  {"os.putenv('RANK', '7')", "sets RANK"},
		"a file is written":  {"open('made', 'w').close()", "opens DIR/made for writing"},
		"a folder is made":   {"os.mkdir('made')", "makes the folder DIR/made"},
		"a FIFO is made":     {"os.mkfifo('made')", "calls mkfifo"},
		"a file is renamed":  {"os.rename('helper.py', 'made')", "renames a file"},
		"a file is locked":   {"import fcntl; fcntl.flock(open('helper.py'), fcntl.LOCK_SH)", "calls flock"},
		"a process":          {"os.system('true')", "starts a process"},
		"a thread":           {"import threading; threading.Thread(target=print).start()", "starts a thread"},
		"a semaphore":        {"import multiprocessing; x = multiprocessing.Lock()", "makes a semaphore"},
		"the time":           {"import time; x = time.time()", "calls time"},
		"its limits":         {"import resource; x = resource.getrlimit(resource.RLIMIT_FSIZE)", "calls getrlimit"},
		"the kernel":         {"x = open('/proc/uptime').read()", "reads /proc/uptime"},
		"a profiler":         {"import sys; sys.setprofile(None)", "sets a profiler"},
		"a package: a child": {"import pkg", "starts a process"},
		"its end":            {"x = 1", "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "").repeats()
			lines := strings.Split(c.line, "; ")
			f.pyScript("import os\n" + strings.Join(lines, "\n") + "\n")
			f.writes("helper.py", "")
			f.writes("installed/site-packages/pkg.py", "import subprocess\nsubprocess.run(['true'])\n")
			f.order.Env["PYTHONPATH"] = filepath.Join(f.order.Workdir, "installed/site-packages")
			plan := f.prepares(func(*run.Prepare) {})
			want := "train.py:" + strconv.Itoa(len(lines)+1) + " (" + strings.ReplaceAll(c.why, "DIR", f.order.Workdir)
			if at := f.ready(1).Prepared.Parked; !strings.HasPrefix(at, want) {
				t.Errorf("parked at %q, want %q", at, want)
			}
			if _, err := os.Stat(filepath.Join(f.order.Workdir, "made")); err == nil {
				t.Error("it was made before the start")
			}
			f.startWarm(plan)
			if r := f.stopped(); !r.Stopped.Finished {
				t.Errorf("stopped %+v: %s", r.Stopped, f.read("logs", "rank-0.log"))
			}
			f.retire()
		})
	}
}

// What cannot be parked where its rank is asked for has its workers executed, with a reason.
func TestWhatCannotBeParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, why string }{
		"prints much": {"import os\nfor _ in range(100): print('x' * 5000)\nprint(len(os.environ['RANK']))\n", "it prints more than"},
		"device":      {"import os, keeps\nprint(len(os.environ['RANK']))\n", "keeps /dev/full open"},
		"writes":      {"import os, writes\nprint(len(os.environ['RANK']))\n", "has ended before it was parked while it imported writes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			f.pyScript(c.source)
			// As a library would that is not Python: no event tells of the calls.
			const quiet = "import ctypes\nlibc = ctypes.CDLL(None)\n"
			f.writes("installed/site-packages/keeps.py", quiet+"libc.open(b'/dev/full', 0)\n")
			f.writes("installed/site-packages/writes.py", quiet+"fd = libc.open(b'written', 0o101, 0o644)\nlibc.write(fd, b'x', 1)\nlibc.close(fd)\n")
			f.order.Env["PYTHONPATH"] = filepath.Join(f.order.Workdir, "installed/site-packages")
			plan := f.prepares(func(*run.Prepare) {})
			if r := f.startPrepared(); r.Prepared.Ready || !strings.Contains(r.Prepared.Cold, c.why) {
				t.Fatalf("prepared %+v", r.Prepared)
			}
			if b, err := os.ReadFile(filepath.Join(f.order.Workdir, "written")); err == nil && len(b) > 0 {
				t.Errorf("it has written %q before its start", b)
			}
			f.startCold(plan, c.why)
			if log := f.ended(0); !strings.HasSuffix(log, "1\n") {
				t.Errorf("log: %.300q", log)
			}
		})
	}
}
