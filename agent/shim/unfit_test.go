package shim

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Modules that a fork would break, or that read what only a plan tells, are imported by
// the workers themselves; the others are warm.
func TestModulesThatAreNotForLaunchers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, why string }{
		"thread":      {"import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n", "threads"},
		"socket":      {"import socket\nS = socket.socket()\n", "socket"},
		"device":      {"F = open('/dev/zero', 'rb')\n", "/dev/zero"},
		"rank":        {"import os\nRANK = os.environ.get('RANK')\nassert RANK in (None, '0')\n", "RANK"},
		"environment": {"import os\nassert not [v for k, v in os.environ.items() if k.startswith('NONE_')]\nENV = dict(os.environ)\n", "copy of the environment"},
		"settings":    {"import os\nSETTINGS = {k.lower(): v.strip() for k, v in os.environ.items()}\n", "copy of the environment"},
		"text":        {"import os\nTEXT = ' '.join(f'{k}={v}' for k, v in os.environ.items())\n", "texts of the whole environment"},
		"lock":        {"import multiprocessing\nL = multiprocessing.Lock()\n", "all workers would share: /dev/shm/sem."},
		"memory":      {"import mmap\nM = mmap.mmap(-1, 4096)\n", "all workers would share"},
		"fails":       {"import os\nassert os.path.exists('second')\n", ""}, // the first time only
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			if name != "thread" {
				f.repeats()
			}
			f.pyScript("import os, sys\nprint('ran', 'bad' in sys.modules, 'outer' in sys.modules, 'good' in sys.modules)\nopen('second', 'w').close()\nimport outer, bad\nprint(getattr(bad, 'RANK', '0'), getattr(bad, 'ENV', os.environ)['RANK'])\nos._exit(0)\n")
			write(t, filepath.Join(f.order.Workdir, "bad.py"), c.source, 0o644)
			write(t, filepath.Join(f.order.Workdir, "outer.py"), "import good\nimport bad\n", 0o644)
			write(t, filepath.Join(f.order.Workdir, "good.py"), "import os\nMINE = {k: v for k, v in os.environ.items() if k.startswith('MY_')}\n", 0o644)
			plan := f.prepared()
			f.order.Prepare.Modules = []string{"outer", "bad", "good"}
			plan.Prepare = f.order.Prepare
			if r := f.startPrepared(); !r.Prepared.Ready {
				t.Fatalf("prepared %+v", r.Prepared)
			}
			list := readModules(f.order.ModulesFile)
			if c.why == "" && len(list.Avoid) > 0 || !strings.Contains(list.Avoid["bad"], c.why) || (c.why != "") != (list.Avoid["outer"] != "") || list.Avoid["good"] != "" {
				t.Errorf("to be avoided: %q", list.Avoid)
			}
			f.bind(plan)
			f.push(Wish{Start: true})
			if r := f.started(); !r.Warm {
				t.Errorf("prepared %+v", r.Prepared)
			}
			if log := f.ended(0); log != "ran False False True\n0 0\n" {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// Frameworks try modules that fail without a package that is not there, and live without them. They are recorded
// like all others, and nothing is left to the workers for them.
func TestAModuleThatMayFailIsNoReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript(ranScript)
	write(t, filepath.Join(f.order.Workdir, "optional.py"), "raise ImportError('needs what is not there')\n", 0o644)
	write(t, filepath.Join(f.order.Workdir, "helper.py"), "try: import optional\nexcept ImportError: pass\nVALUE = 1\n", 0o644)
	plan := f.prepared()
	f.order.Prepare.Modules = []string{"helper", "optional"}
	plan.Prepare = f.order.Prepare
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	if list := readModules(f.order.ModulesFile); len(list.Avoid) > 0 {
		t.Errorf("to be avoided: %q", list.Avoid)
	}
	f.bind(plan)
	f.push(Wish{Start: true})
	if r := f.started(); !r.Warm {
		t.Errorf("prepared %+v", r.Prepared)
	}
	if log := f.ended(0); log != "ran True\nvalue 1\n" {
		t.Errorf("log: %q", log)
	}
}

// A thread that an import has started, and that ends within a moment, leaves a signal of glibc's own caught: OpenBLAS's
// do in each process that has more than one core. Nothing is wrong with forking that.
func TestAThreadThatHasEndedIsNoReason(t *testing.T) {
	t.Parallel()
	f, plan := readyRun(t, 1, ranScript, "import threading, time\nT = threading.Thread(target=time.sleep, args=(0.03,))\nT.start()\nVALUE = 1\n")
	f.bind(plan)
	f.push(Wish{Start: true})
	if r := f.started(); !r.Warm {
		t.Errorf("prepared %+v", r.Prepared)
	}
	if log := f.ended(0); log != "ran True\nvalue 1\n" {
		t.Errorf("log: %q", log)
	}
}

// What cannot be laid to a module keeps workers from being forked at all.
func TestProcessesThatCannotBeForked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, why string }{
		"folder":    {"import os\nos.mkdir('data')\nos.chdir('data')\n", "working directory"},
		"umask":     {"import os\nos.umask(0o002)\n", "umask"},
		"arguments": {"import sys\nsys.argv.pop()\n", "sys.argv"},
		"signal":    {"import signal\nsignal.signal(signal.SIGUSR1, lambda *a: None)\n", "signals"},
		"process":   {"import subprocess\nP = subprocess.Popen(['sleep', '1000'])\n", "process"},
		"exits":     {"import os\nprint('good bye')\nos._exit(7)\n", "good bye"},
		"prints":    {"print('x' * 100000)\n", "print"},
		"cuda":      {"import ctypes, shutil\nwith open('/proc/self/maps') as f: lib = next(l.split()[-1] for l in f if '/libm.so' in l or '/libm-' in l)\nshutil.copy(lib, 'libcuda.so.1')\nL = ctypes.CDLL('./libcuda.so.1')\n", "loads libcuda.so.1"},
		"memory":    {"B = bytearray(300 << 20)\nimport time\ntime.sleep(1000)\n", "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			if name != "exits" && name != "memory" {
				f.repeats()
			}
			f.pyScript("print('ran')\n")
			write(t, filepath.Join(f.order.Workdir, "bad.py"), c.source, 0o644)
			plan := f.prepared()
			f.order.Prepare.Modules, f.order.Prepare.Memory = []string{"bad"}, 200<<20
			plan.Prepare = f.order.Prepare
			r := f.startPrepared()
			if r.Prepared.Ready || !strings.Contains(r.Prepared.Cold, c.why) {
				t.Fatalf("prepared %+v", r.Prepared)
			}
			f.startCold(plan, c.why)
			if log := f.ended(0); log != "ran\n" {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// TestAZipFileIsRun has the script be an archive, whose __main__.py is run.
func TestAZipFileIsRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("")
	pack := exec.Command(interpreter(t), "-c", "import zipfile\nwith zipfile.ZipFile('app.zip', 'w') as z: z.writestr('__main__.py', 'import sys, inner; print(sys.argv, inner.X)'); z.writestr('inner.py', 'X = 1')")
	pack.Dir = f.order.Workdir
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f.order.Command[1] = "app.zip"
	f.start().stopped()
	if log := f.read("logs", "rank-0.log"); log != "['app.zip', '--lr', '0.1'] 1\n" {
		t.Errorf("log: %q", log)
	}
	f.retire()
}
