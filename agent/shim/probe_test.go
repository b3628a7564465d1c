package shim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/durable"
)

// probe prints all that a script can easily see of its process, as JSON.
const probe = `
import atexit, gc, inspect, json, os, pickle, random, resource, signal, sys, threading, time
import multiprocessing.connection, multiprocessing.popen_spawn_posix, multiprocessing.popen_fork, multiprocessing.resource_tracker, multiprocessing.synchronize, multiprocessing.queues
import helper

class Local:
    def __eq__(self, other): return type(other) is Local

def child(q): q.put([__name__, sys.argv, Local.__module__])

def read(path):
    with open(path, "rb") as f: return f.read()

def status(*names):
    return {l.split(":")[0]: l.split(":", 1)[1].split() for l in read("/proc/self/status").decode().splitlines() if l.split(":")[0] in names}

modules = list(sys.modules)

def main():
    rank = os.environ["RANK"]  # parks
    stat = read("/proc/self/stat").rpartition(b")")[2].split()
    seen = {
        "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "flags": str(sys.flags), "executable": sys.executable,
        "path": sys.path, "prefix": sys.prefix, "meta_path": [getattr(m, "__name__", type(m).__name__) for m in sys.meta_path],
        "main": {k: repr(v) if k in ("__builtins__", "__loader__", "__spec__", "__annotations__") else v for k, v in vars(sys.modules["__main__"]).items() if k.startswith("__")},
        "environ": sorted(os.environ.items()), "proc_environ": sorted(read("/proc/self/environ").decode().split("\0")),
        "cmdline": read("/proc/self/cmdline").decode().split("\0"), "comm": read("/proc/self/comm").decode(),
        "cwd": os.getcwd(), "ids": [os.getresuid(), os.getresgid(), os.getgroups()], "umask": os.umask(0o022),
        "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
        "cgroup": read("/proc/self/cgroup").decode(), "nice": os.nice(0), "affinity": sorted(os.sched_getaffinity(0)),
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()], "threads": int(stat[17]),
        "status": status("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "CapEff", "CapBnd"),
        "fds": sorted([int(n), os.readlink("/proc/self/fd/" + n).split(":")[0]] for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)),
        "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.valid_signals() if isinstance(s, signal.Signals)},
        "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_stats()[2]["collections"], len(gc.callbacks), gc.get_freeze_count()],
        "modules": modules, "stack": [f.function + ":" + os.path.basename(f.filename) for f in inspect.stack()], "profile": [sys.getprofile(), sys.gettrace(), threading._profile_hook if hasattr(threading, "_profile_hook") else None],
        "threads of Python": [t.name for t in threading.enumerate()], "frames": len(sys._current_frames()), "path_hooks": [getattr(h, "__name__", str(h)) for h in sys.path_hooks],
        "filters": [str(f) for f in __import__("warnings").filters], "dont_write": sys.dont_write_bytecode, "importers": sorted(sys.path_importer_cache),
        "cache": [type(f).__name__ for f in sys.path_importer_cache.values()], "site": [__import__("site").__file__, "sitecustomize" in sys.modules],
        "loader": __import__("importlib.machinery").machinery.SourceFileLoader._cache_bytecode.__qualname__, "audit": sys.intern("x") is sys.intern("x"), "recursion": sys.getrecursionlimit(), "switch": sys.getswitchinterval(),
        "thread": [threading.current_thread().name, threading.main_thread() is threading.current_thread(), threading.get_native_id() == os.getpid(), threading.main_thread().native_id == os.getpid()],
        "streams": [(s.encoding, s.errors, s.line_buffering, s.write_through, s.fileno()) for s in (sys.stdin, sys.stdout, sys.stderr)],
        "file": __file__, "name": __name__, "hash": hash("seeded"), "helper": [helper.__file__, helper.__spec__.origin, helper.VALUE],
        "import": helper.SEEN, "package": getattr(sys.modules.get("pkg"), "SEEN", None),
        "pickle": pickle.loads(pickle.dumps(Local())) == Local(), "excepthook": sys.excepthook is sys.__excepthook__,
        "trace": [sys.gettrace() is None, sys.getprofile() is None], "warnoptions": sys.warnoptions,
        "locale": __import__("locale").setlocale(__import__("locale").LC_ALL),
    }
    ages = time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / os.sysconf("SC_CLK_TCK")
    seen["young"] = ages < 60
    import multiprocessing
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        q = context.Queue()
        p = context.Process(target=child, args=(q,))
        p.start()
        seen["child by " + method] = q.get()
        p.join()
    atexit.register(lambda: print("exit handler 2"))
    with open("seen-%s-%s.json" % (os.environ["RANK"], os.environ["PROBE"]), "w") as f:
        json.dump(seen, f)
    with open("random-%s-%s" % (os.environ["RANK"], os.environ["PROBE"]), "w") as f:
        f.write("%r" % random.random())
    raise RuntimeError("uncaught")

if __name__ == "__main__":
    atexit.register(lambda: print("exit handler 1"))
    main()
`

// atImport records what a module sees while it is imported.
const atImport = `
import os, sys, __main__
umask = os.umask(0o022)
os.umask(umask)
SEEN = [list(sys.argv), list(getattr(sys, "orig_argv", [])), getattr(__main__, "__file__", None), __main__.__name__, os.getcwd(), umask, os.environ["PYTHONHASHSEED"], sys.path[0]]
`

// TestAParkedWorkerSeesWhatAnExecutedOneDoes runs the probe executed in a prepared run, executed at once, and parked, as a
// script, as a module and as a file with an interpreter of its own, and compares.
func TestAParkedWorkerSeesWhatAnExecutedOneDoes(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"system":  {"/usr/bin/python3", "probe.py"},
		"script":  {"", "-W", "ignore::ImportWarning", "probe.py", "--lr", "0.1"},
		"module":  {"", "-u", "-m", "pkg.probe", "x y", ""},
		"env":     {"env", "EXTRA=1", "", "probe.py"},
		"shebang": {"./probe.py", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "system" {
				if _, err := os.Stat(command[0]); err != nil {
					t.Skip(err)
				}
			}
			repeats := name != "script"
			executed, executedLog := runProbe(t, command, "executed", repeats)
			for _, how := range []string{"bare", "warm"} {
				got, log := runProbe(t, command, how, repeats)
				compared := 0
				for key, want := range executed {
					compared++
					if got[key] != want && (key != "proc_environ" || how == "bare") { // the kernel's copy is of the process's begin
						t.Errorf("%s:\nexecuted %s\n%s %s", key, want, how, got[key])
					}
				}
				if compared < 50 || len(got) != len(executed) {
					t.Errorf("%s: %d values compared, %d and %d there", how, compared, len(executed), len(got))
				}
				if executedLog != log || !strings.Contains(log, "RuntimeError: uncaught") || !strings.Contains(log, "helper is imported\n") || !strings.HasSuffix(log, "exit handler 2\nexit handler 1\n") {
					t.Errorf("log, executed:\n%s\n%s:\n%s", executedLog, how, log)
				}
			}
		})
	}
}

// ofThisRun is what differs from run to run; the fixture's folder lies wherever TMPDIR says.
var ofThisRun = regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/shim[0-9]+|bellows-train-abcdef-g3-[0-9a-f]+-[0-9]+|MASTER_PORT(=|", ")[0-9]+|0x[0-9a-f]+|PROBE(=|", ")[a-z]+`)

func runProbe(t *testing.T, command []string, how string, repeats bool) (seen map[string]string, log string) {
	f := newFixture(t, 1, "")
	if repeats {
		f.repeats()
	}
	python := interpreter(t)
	f.pyScript("")
	f.order.Command = slices.Clone(command)
	for i, word := range command {
		if word == "" && i < 3 && len(command) > 2 {
			f.order.Command[i] = python
			break
		}
	}
	source := "#!" + python + "\n" + probe
	agenttest.Write(t, filepath.Join(f.order.Workdir, "probe.py"), source, 0o755)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "pkg", "__init__.py"), atImport, 0o644)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "pkg", "probe.py"), source, 0o644)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "helper.py"), "print('helper is imported')\nVALUE = 7\n"+atImport, 0o644)
	f.order.Env["PROBE"], f.order.Env["PYTHONHASHSEED"] = how, "7"
	if how == "bare" {
		f.start()
	} else {
		plan := f.prepares(func(*run.Prepare) {})
		if r := f.ready(1); !strings.HasSuffix(r.Prepared.Parked, "(reads RANK)") {
			t.Errorf("parked at %q", r.Prepared.Parked)
		}
		if how == "executed" {
			f.killParked()
		}
		f.bind(plan)
		f.push(run.Wish{Start: true})
	}
	r := f.stopped()
	if len(r.Stopped.Exits) != 1 || r.Stopped.Exits[0].Code != 1 || r.Warm != (how == "warm") {
		t.Fatalf("warm %v: %+v, %+v", r.Warm, r.Stopped, r.Failed)
	}
	f.retire()
	var raw map[string]json.RawMessage
	if err := durable.ReadJSON(filepath.Join(f.order.Workdir, "seen-0-"+how+".json"), &raw); err != nil {
		t.Fatal(err, f.read("logs", "rank-0.log"))
	}
	seen = map[string]string{}
	for key, value := range raw {
		seen[key] = ofThisRun.ReplaceAllString(string(value), "<>")
	}
	return seen, ofThisRun.ReplaceAllString(f.read("logs", "rank-0.log"), "<>")
}
