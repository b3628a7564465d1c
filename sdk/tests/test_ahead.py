"""Where ahead.py parks a script, what it lets pass, and what it finds changed, in each Python that is there."""

import glob
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest

SDK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PLAN = {"RANK": "0", "WORLD_SIZE": "2"}
PATIENCE_S = 120


def pythons():
    """Return the interpreters to try: the tests' own, the oldest and the newest that pyenv has; all of them if asked for, as the soak does."""
    found = {sys.version_info[1]: sys.executable}
    for path in glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")):
        minor = int(path.split("/versions/3.")[1].split(".")[0])
        if 8 <= minor <= 13:
            found.setdefault(minor, path)
    if "BELLOWS_TEST_ALL_PYTHONS" not in os.environ:
        found = {minor: found[minor] for minor in {min(found), sys.version_info[1], max(found)}}
    return {"3.%d" % minor: path for minor, path in found.items()}


PYTHONS = pythons()


class Ahead:
    """A script that runs ahead, seen from the shim's end."""

    def __init__(self, python, folder, script="train.py", before=(), most_events=None, short_s=1000):
        self.folder = str(folder)
        modules = os.path.join(self.folder, ".modules")
        os.makedirs(modules, exist_ok=True)
        with open(os.path.join(SDK, "ahead.py")) as f:
            source = f.read()
        if most_events:
            source = re.sub(r"MOST_EVENTS = [0-9_]+", "MOST_EVENTS = %d" % most_events, source)
        with open(os.path.join(modules, "bellows_ahead.py"), "w") as f:
            f.write(source)
        with open(os.path.join(SDK, "early.py")) as f:
            source = f.read()
        with open(os.path.join(modules, "bellows_early.py"), "w") as f:
            f.write(source.replace("SHORT_S = 3", "SHORT_S = %d" % short_s))
        shutil.copy(os.path.join(SDK, "leave.py"), os.path.join(modules, "bellows_leave.py"))
        shutil.copy(os.path.join(SDK, "site_worker.py"), os.path.join(modules, "sitecustomize.py"))
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE_S)
        self.buffer = b""
        self.theirs = theirs.fileno()
        env = dict(environment(self.folder), BELLOWS_AHEAD=str(theirs.fileno()))
        self.process = subprocess.Popen(
            [*([python] if isinstance(python, str) else python), script], cwd=self.folder, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        theirs.close()
        assert self.hear() == ["hello"]
        self.say(*["planned=" + name for name in PLAN], *["before=" + what for what in before])
        self.imported, self.early = [], False
        while True:
            message = self.hear()
            if not message or message[0] not in ("at", "early"):
                break
            self.imported += message[1:]
            self.early = self.early or message[0] == "early"
        self.message = message

    def hear(self):
        while b"\0\0" not in self.buffer:
            more = self.socket.recv(1 << 16)
            if not more:
                return None
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0\0")
        return message.decode().split("\0")

    def say(self, *fields):
        self.socket.sendall(b"".join(f.encode() + b"\0" for f in fields) + b"\0")

    def at(self):
        """Return the line at which it is parked, and why."""
        assert self.message and self.message[0] == "parked", (self.message, self.printed())
        place, why = self.message[1:3]
        return int(place.rpartition(":")[2]) if ":" in place else place, why

    def printed(self):
        self.socket.close()
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return out.decode()

    def release(self):
        """Release it; return None, or why it has to be cold and what to park before, the next time."""
        self.say(*["%s=%s" % item for item in PLAN.items()])
        message = self.hear()
        if message == ["ok"]:
            self.say("go")
            return None
        assert message and message[0] == "cold", (message, self.printed())
        return message[1:]

    def ended(self):
        """Return how it ended, and what it printed."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        self.socket.close()
        return self.process.returncode, out.decode()

    def kill(self):
        self.process.kill()
        self.printed()


def environment(folder):
    packages = os.path.join(folder, "installed", "site-packages")
    return {"PATH": "/usr/bin:/bin", "HOME": folder, "PYTHONPATH": os.path.join(folder, ".modules") + os.pathsep + packages, "PYTHONHASHSEED": "0"}


def executed(python, folder):
    """Run the script as without all this."""
    env = dict(environment(folder), **PLAN)
    done = subprocess.run([python, "train.py"], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, start_new_session=True)
    return done.returncode, done.stdout.decode()


def write(folder, **files):
    for name, text in files.items():
        path = os.path.join(str(folder), name.replace("__", "/") + ".py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)


@pytest.fixture(params=sorted(PYTHONS))
def python(request):
    return PYTHONS[request.param]


# Each parks at its last line but one, for a reason that matches; the last prints something, and is never reached before.
RANK = "reads RANK"
WHOLE = "reads the whole environment"
STARTS = "start|calls|process"
READS_ENVIRONMENT = {
    "os.environ['RANK']": RANK, "os.environ.get('RANK')": RANK, "'RANK' in os.environ": RANK, "os.getenv('RANK', '0')": RANK,
    "os.environb[b'RANK']": RANK, "os.environb.get(b'RANK')": RANK, "os.getenvb(b'RANK')": RANK, "os.environ.setdefault('RANK', '0')": RANK,
    "os.environ.pop('RANK', None)": RANK, "os.path.expandvars('$RANK')": RANK, "int(os.environ.get('WORLD_SIZE') or 1)": "reads WORLD_SIZE",
    "(lambda e: e['RANK'])(os.environ)": RANK, "[os.environ[n] for n in ('RANK',)]": RANK, "list(map(os.environ.get, ['RANK']))": RANK,
    "os.environ.copy()": WHOLE, "dict(os.environ)": WHOLE, "list(os.environ)": WHOLE, "sorted(os.environ.items())": WHOLE, "list(os.environ.values())": WHOLE,
    "list(os.environ.keys())": WHOLE, "{**os.environ}": WHOLE, "str(os.environ)": WHOLE, "len(os.environ)": WHOLE, "dict(os.environb)": WHOLE,
    "{k: v for k, v in os.environ.items() if v}": WHOLE, "[k for k in os.environ]": WHOLE, "os.environ == {}": WHOLE, "'%s' % os.environ": WHOLE,
    "import copy; copy.deepcopy(os.environ)": WHOLE,
    "os.environ['RANK'] = '0'": "sets RANK", "os.environ.update(RANK='0')": "sets RANK", "os.putenv('RANK', '0')": "sets RANK", "os.unsetenv('RANK')": "sets RANK",
}  # fmt: skip
CHANGES_OUTSIDE = {
    "open('x', 'w').close()": "opens .*/x for writing", "open('x', 'a').close()": "for writing", "open('x', 'x').close()": "for writing",
    "open('there', 'r+').close()": "for writing", "os.open('x', os.O_CREAT | os.O_RDONLY)": "for writing", "import io; io.open('x', 'wb').close()": "for writing",
    "import pathlib; pathlib.Path('x').write_text('x')": "for writing", "import pathlib; pathlib.Path('x').touch()": "for writing|times",
    "import pathlib; pathlib.Path('x').mkdir()": "makes the folder", "os.mkdir('x')": "makes the folder", "os.makedirs('x/y', exist_ok=True)": "makes the folder",
    "os.rename('there', 'x')": "renames a file", "os.replace('there', 'x')": "renames a file", "os.remove('there')": "removes a file", "os.unlink('there')": "removes",
    "os.rmdir('folder')": "removes a folder", "os.symlink('there', 'x')": "makes a link", "os.link('there', 'x')": "makes a link", "os.chmod('there', 0o600)": "mode",
    "os.utime('there')": "times", "os.truncate('there', 0)": "truncates", "os.mkfifo('x')": "mkfifo", "import shutil; shutil.rmtree('folder')": "calls|removes",
    "import shutil; shutil.copy('there', 'x')": "calls|for writing", "import fcntl; fcntl.flock(open('there'), fcntl.LOCK_SH)": "locks|calls",
    "import fcntl; fcntl.lockf(open('there'), fcntl.LOCK_SH)": "locks|calls", "import tempfile; tempfile.mkdtemp()": "temporary|calls",
    "import tempfile; tempfile.NamedTemporaryFile()": "temporary|calls", "import tempfile; tempfile.TemporaryDirectory()": "temporary|calls",
    "import sqlite3; sqlite3.connect('x.db')": "database|calls", "import logging; logging.FileHandler('x.log')": "for writing|calls",
    "import logging; logging.basicConfig(filename='x.log')": "for writing", "import logging.handlers; logging.handlers.RotatingFileHandler('x')": "for writing|calls|looks",
    "import gzip; gzip.open('x.gz', 'wb')": "for writing", "import zipfile; zipfile.ZipFile('x.zip', 'w')": "for writing", "import dbm.dumb; dbm.dumb.open('x')": "calls|for",
    "import subprocess; subprocess.run(['true'])": STARTS, "import subprocess; subprocess.check_output(['sh', '-c', 'echo $RANK'])": STARTS,
    "os.system('true')": STARTS, "os.popen('true')": STARTS, "os.fork()": STARTS, "os.posix_spawn('/bin/true', ['true'], {})": STARTS, "os.execv('/bin/true', ['true'])": "executes",
    "import multiprocessing; multiprocessing.Process(target=print).start()": STARTS, "import multiprocessing; multiprocessing.Lock()": "makes a semaphore", "import multiprocessing; multiprocessing.Event()": "semaphore",
    "import multiprocessing; multiprocessing.Pool(1)": "semaphore", "import threading; threading.Thread(target=print).start()": "thread",
    "import concurrent.futures as c; c.ThreadPoolExecutor(1).submit(print)": "thread|calls", "import threading; threading.Timer(0, print).start()": "thread",
    "import _thread; _thread.start_new_thread(print, ())": "thread", "os.kill(os.getpid(), 0)": "signal", "import signal; signal.alarm(1000)": "alarm", "os.abort()": "abort", "os._exit(3)": "_exit",
    "import signal; signal.setitimer(signal.ITIMER_REAL, 1000)": "setitimer", "os.setsid()": "setsid", "os.nice(0)": "nice", "os.setpriority(0, 0, 0)": "setpriority",
    "import socket; socket.socket().connect(('127.0.0.1', 1))": "calls|connection", "import socket; socket.create_server(('', 0))": "calls|port",
    "import urllib.request as u; u.urlopen('http://127.0.0.1:1')": "calls|network|connection", "import socket; socket.getaddrinfo('localhost', 1)": "calls|network",
    "import asyncio; asyncio.run(asyncio.sleep(0))": "calls", "os.sched_setaffinity(0, os.sched_getaffinity(0))": "sched_setaffinity", "import syslog; syslog.syslog('x')": "calls|log",
    "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))": "limit", "os.write(1, b'x')": "write", "os.openpty()": "openpty",
    "import multiprocessing.shared_memory as m; m.SharedMemory(create=True, size=1)": "shm_open", "import multiprocessing; multiprocessing.Queue()": "semaphore",
}  # fmt: skip
ASKS_THE_MOMENT = {
    "import time; time.time()": "time", "import time; time.time_ns()": "time", "import time; time.perf_counter()": "perf_counter", "import time; time.monotonic()": "monotonic",
    "import time; time.strftime('%S')": "strftime", "import time; time.localtime()": "localtime", "import time; time.sleep(0)": "sleep|waits", "import time; time.process_time()": "process_time",
    "import datetime; datetime.datetime.now()": "now", "import datetime; datetime.datetime.utcnow()": "utcnow", "import datetime; datetime.date.today()": "today",
    "import uuid; uuid.uuid1()": "uuid1|generate", "import logging; logging.error('x')": "calls", "import logging; logging.getLogger('x').warning('x')": "calls", "import timeit; timeit.timeit('1', number=1)": "calls|perf",
    "os.stat('there')": "stat", "os.lstat('there')": "lstat", "os.access('there', os.R_OK)": "access", "os.readlink('/proc/self')": "readlink", "os.statvfs('.')": "statvfs",
    "os.getloadavg()": "getloadavg", "os.times()": "times", "os.uname()": "uname", "import platform; platform.node()": "calls",
    "import socket; socket.gethostname()": "gethostname", "import getpass; getpass.getuser()": "calls|LOGNAME|looks", "os.getlogin": None, "open('/proc/self/stat').read()": "reads /proc",
    "open('/proc/%d/environ' % os.getpid()).read()": "reads /proc", "open('/sys/class/net/lo/address').read()": "reads /sys", "open('/proc/uptime').read()": "reads /proc", "os.listdir('/proc/self/fd')": "reads /proc", "os.path.exists('/dev/nvidia0')": "reads /dev",
    "import resource; resource.getrlimit(resource.RLIMIT_FSIZE)": "getrlimit", "import resource; resource.getrusage(0)": "getrusage", "os.getpriority(0, 0)": "getpriority",
    "import signal; signal.getsignal(signal.SIGXFSZ)": "getsignal", "import ctypes; ctypes.CDLL(None).getenv(b'RANK')": "calls|loads", "import sys; sys.setprofile(None)": "profiler", "import sys; sys.settrace(None)": "tracer",
    "import shutil; shutil.disk_usage('.')": "calls", "import shutil; shutil.which('sh')": "calls", "os.get_terminal_size()": "get_terminal_size", "import sys; sys.stdin.read() or input()": "input",
}  # fmt: skip
del ASKS_THE_MOMENT["os.getlogin"]

# What is let pass: it asks nothing, or what it asks is compared at the release.
PASSES = """
import argparse, collections, configparser, contextlib, copy, csv, dataclasses, enum, functools, gc, glob, hashlib, io, itertools, json, logging, math, operator
import os, pathlib, pickle, random, re, signal, string, struct, sys, textwrap, threading, types, typing, uuid, warnings, weakref
import helper
@dataclasses.dataclass
class Config:
    rate: float = 0.1
    names: list = dataclasses.field(default_factory=list)
class Colour(enum.Enum):
    RED = 1
Point = collections.namedtuple("Point", "x y")
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args([])
with open("there") as f: text = f.read()
text += pathlib.Path("there").read_text() + str(pathlib.Path("there").exists()) + str(pathlib.Path("none").is_file())
text += str(os.path.exists("none")) + str(os.path.isdir("folder")) + str(sorted(os.listdir("."))[:0]) + str(glob.glob("*.none"))
text += str([p.name for p in pathlib.Path("folder").iterdir()]) + str(os.path.getsize("there")) + str(next(os.walk("folder"))[1])
random.seed(1)
text += str(random.random()) + str(random.Random(2).randint(1, 1000)) + hashlib.sha256(b"x").hexdigest() + json.dumps({"a": [1, 2]})
text += str(Config()) + str(Colour.RED) + str(Point(1, 2)) + repr(pickle.loads(pickle.dumps({1: 2}))) + str(args) + os.environ.get("HOME", "")[:0]
os.environ["OWN"] = "1"
text += os.environ["OWN"] + str(signal.signal(signal.SIGUSR1, signal.SIG_IGN)) + str(functools.reduce(operator.add, [1, 2])) + str(gc.isenabled())
logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("x")
lock = threading.Lock()
with lock: text += str(threading.current_thread().name)
warnings.warn("a warning")
os.makedirs("folder", exist_ok=True)
os.chdir(".")
text += str(len(uuid.uuid4().hex)) + str(len(os.urandom(4))) + str(os.getpid() == os.getpid()) + helper.VALUE
def generate():
    yield from (i * i for i in range(3))
text += str(list(generate())) + str(sorted([3, 1, 2], key=lambda v: -v)) + str([*map(str, range(3))])
try:
    import absent
except ImportError as err:
    text += str(err)
print(hashlib.md5(text.encode()).hexdigest())
rank = os.environ["RANK"]
print(text, rank)
"""


def places(folder):
    write(folder, helper="VALUE = 'helped'\n")
    with open(os.path.join(str(folder), "there"), "w") as f:
        f.write("there\n")
    os.makedirs(os.path.join(str(folder), "folder"))


def parks(python, tmp_path, table):
    """Check where each script of a table parks, all of them before they complain."""
    wrong = []
    for i, (line, why) in enumerate(table.items()):
        folder = tmp_path / str(i)
        folder.mkdir()
        places(folder)
        lines = line.split("; ")
        source = "import os\n" + "".join(each + "\n" for each in lines[:-1]) + "print('before')\n" + lines[-1] + "\nprint('after')\n"
        write(folder, train=source)
        before = sorted(os.listdir(str(folder)) + [".modules"])
        ahead = Ahead(python, folder)
        try:
            at, reason = ahead.at()
        except AssertionError as err:
            wrong.append((line, str(err)))
            continue
        if at != len(lines) + 2 or not re.search(why, reason) or sorted(os.listdir(str(folder))) != before:
            wrong.append((line, at, reason, os.listdir(str(folder))))
        ahead.kill()
    assert not wrong, "\n".join(map(str, wrong))


def test_what_a_plan_tells_is_not_read_early(python, tmp_path):
    parks(python, tmp_path, READS_ENVIRONMENT)


def test_nothing_outside_is_changed_early(python, tmp_path):
    parks(python, tmp_path, CHANGES_OUTSIDE)


def test_what_the_moment_decides_is_not_asked_early(python, tmp_path):
    parks(python, tmp_path, ASKS_THE_MOMENT)


def test_what_asks_nothing_passes(python, tmp_path):
    places(tmp_path)
    write(tmp_path, train=PASSES)
    ahead = Ahead(python, tmp_path)
    assert ahead.at() == (PASSES.count("\n") - 1, RANK)
    assert ahead.release() is None
    assert ahead.ended() == executed(python, str(tmp_path))


# What is changed while it is parked, what the process says then, and what it parks before, the next time.
CHANGES = {
    "a file that was read": ("open('there').read()", lambda f: rewrite(f, "there"), "there has changed", "path there"),
    "a file that was asked for": ("os.path.exists('x')", lambda f: rewrite(f, "x"), "x has changed", "path x"),
    "a file asked for by pathlib": ("import pathlib; pathlib.Path('x').exists()", lambda f: rewrite(f, "x"), "x has changed", "path x"),
    "a file by pathlib.is_file": ("import pathlib; (pathlib.Path() / 'x').is_file()", lambda f: rewrite(f, "x"), "x has changed", "path x"),
    "a file by pathlib.stat": ("import pathlib; pathlib.Path('there').stat().st_size", lambda f: rewrite(f, "there"), "there has changed", "path there"),
    "a folder by pathlib": ("import pathlib; pathlib.Path('x').is_dir()", lambda f: os.mkdir(os.path.join(f, "x")), "x has changed", "path x"),
    "a file that was not there": ("import contextlib\nwith contextlib.suppress(OSError): open('x')", lambda f: rewrite(f, "x"), "x has changed", "path x"),
    "a listing": ("os.listdir('folder')", lambda f: rewrite(f, "folder/x"), "folder has changed", "path folder"),
    "a listing by scandir": ("[e.name for e in os.scandir('folder')]", lambda f: rewrite(f, "folder/x"), "folder has changed", "path folder"),
    "a listing by glob": ("import glob; glob.glob('folder/*')", lambda f: rewrite(f, "folder/x"), "folder has changed", "path folder"),
    "a listing by pathlib": ("import pathlib; list(pathlib.Path('folder').glob('*'))", lambda f: rewrite(f, "folder/x"), "folder has changed", "path folder"),
    "a size": ("os.path.getsize('there')", lambda f: rewrite(f, "there"), "there has changed", "path there"),
    "where a path leads": ("os.path.realpath('there')", lambda f: relink(f, "there"), "there has changed", "path there"),
    "a module": ("import helper", lambda f: rewrite(f, "helper.py"), "helper.py has changed", "import helper"),
    "a module that is new": ("import contextlib\nwith contextlib.suppress(ImportError): import extra", lambda f: rewrite(f, "extra.py"), "extra in ", "-"),
    "a package that is new": ("import contextlib\nwith contextlib.suppress(ImportError): import extra", lambda f: os.mkdir(os.path.join(f, "extra")), "extra in ", "-"),
    "a module that hides another": ("import colorsys", lambda f: rewrite(f, "colorsys.py"), "colorsys in ", "-"),
    "a module that was searched for": ("import importlib.util; importlib.util.find_spec('extra')", lambda f: rewrite(f, "extra.py"), "extra in ", "-"),
    "the script": ("pass", lambda f: rewrite(f, "train.py"), "train.py has changed", "path train.py"),
    "its own folder": ("os.path.isdir('folder')", lambda f: os.rmdir(os.path.join(f, "folder")), "folder has changed", "path folder"),
}  # fmt: skip


def rewrite(folder, name):
    with open(os.path.join(folder, name), "a") as f:
        f.write("# another\n")


def relink(folder, name):
    path = os.path.join(folder, name)
    os.rename(path, path + ".was")
    os.symlink(path + ".was", path)


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_what_has_changed_is_found(python, tmp_path, name):
    line, change, why, learned = CHANGES[name]
    places(tmp_path)
    write(tmp_path, train="import os\n%s\nos.environ['RANK']\n" % line.replace("; ", "\n"))
    ahead = Ahead(python, tmp_path)
    assert ahead.at()[1] == RANK
    change(str(tmp_path))
    said, what = ahead.release()
    if learned.startswith("path "):
        learned = "path " + os.path.join(str(tmp_path), learned[len("path ") :])
    assert why in said and what == learned
    assert ahead.ended() == (0, "")
    if what != "-" and "script" not in name and name != "a module":
        again = Ahead(python, tmp_path, before=[what])
        assert "seen to change" in again.at()[1]
        again.kill()


def test_what_has_not_changed_goes_on(python, tmp_path):
    places(tmp_path)
    lines = [line for line, _, _, _ in CHANGES.values()]
    write(tmp_path, train="import os\n%s\nprint(os.environ['RANK'])\n" % "\n".join(lines).replace("; ", "\n"))
    ahead = Ahead(python, tmp_path)
    assert ahead.at()[1] == RANK
    assert ahead.release() is None
    assert ahead.ended() == (0, "0\n")


# How scripts end: parked before that, and released they end as executed ones do.
ENDS = {
    "at its end": "print('x')\n",
    "by sys.exit": "import sys\nprint('x')\nsys.exit(4)\n",
    "by an error": "def fails():\n    raise ValueError('x')\nfails()\n",
    "by an error at an import": "import broken\n",
    "in an exit handler": "import atexit, os\natexit.register(lambda: print(os.environ['RANK']))\n",
    "with a thread": "import threading\nprint(threading.main_thread().name)\n",
    "in a finalizer": "class End:\n    def __del__(self): print('end')\nend = End()\n",
    "in an excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\nraise ValueError\n",
}


@pytest.mark.parametrize("name", sorted(ENDS))
def test_a_script_that_ends(python, tmp_path, name):
    write(tmp_path, train=ENDS[name], broken="raise RuntimeError('broken')\n")
    ahead = Ahead(python, tmp_path)
    assert ahead.at()[1] in ("has ended", RANK)
    assert ahead.release() is None
    assert ahead.ended() == executed(python, str(tmp_path))


def test_a_module_is_parked_before(python, tmp_path):
    write(tmp_path, train="import os\nimport helper\n", helper="print('helped')\n")
    ahead = Ahead(python, tmp_path, before=["import helper"])
    assert ahead.at() == (2, "imports helper")
    assert ahead.release() is None
    assert ahead.ended() == (0, "helped\n")


def test_a_package_does_what_an_import_does(python, tmp_path):
    """A package's own code may ask what the user's own may not; a device, a process, a written file park it, too."""
    package = str(tmp_path / "installed" / "site-packages" / "pkg.py")
    os.makedirs(os.path.dirname(package))
    for asks, why in {
        "import time, os\nNOW = time.time(), os.stat('/'), os.getloadavg": RANK,
        "import time, os, pathlib\nIN = pathlib.Path('/proc/self/ns/pid').stat(), os.path.exists('/proc/%d/smaps' % os.getpid())": RANK,
        "import os\nopen('/proc/self/smaps')": "reads /proc/self/smaps",
        "import ctypes\nctypes.CDLL('./libcuda.so.1')": "asks for devices",
        "import os\nos.environ['RANK']": RANK,
        "import os\nALL = dict(os.environ)": WHOLE,
        "import os\nos.mkdir('made')": "makes the folder",
        "import subprocess\nsubprocess.run(['true'])": "starts a process",
        "import threading\nthreading.Thread(target=print).start()": "starts a thread",
        "import os\nos.open('/dev/kmsg', os.O_RDONLY)": "reads /dev/kmsg",
        "import resource\nresource.getrlimit(resource.RLIMIT_FSIZE)": "getrlimit",
    }.items():
        with open(package, "w") as f:
            f.write(asks + "\n")
        write(tmp_path, train="import os\nimport pkg\nos.environ['RANK']\n")
        ahead = Ahead(python, tmp_path)
        at, reason = ahead.at()
        assert why in reason and at == (3 if asks.startswith("import time") else 2), (asks, at, reason)
        ahead.kill()
        shutil.rmtree(os.path.join(os.path.dirname(package), "__pycache__"), ignore_errors=True)


def test_a_package_may_ask_where_temporary_files_go(python, tmp_path):
    """It is told without a file that is written for it, which is made up for before the release. The script has a module named as the one that this needs."""
    os.makedirs(str(tmp_path / "installed" / "site-packages"))
    os.makedirs(str(tmp_path / "first"))
    with open(str(tmp_path / "installed" / "site-packages" / "pkg.py"), "w") as f:
        f.write("import tempfile\nWHERE = tempfile.gettempdir()\n")
    lines = ["import os", "os.environ['TMPDIR'] = %r" % str(tmp_path / "first"), "import pkg", "os.environ['RANK']", "import resource", "print(pkg.WHERE)"]
    write(tmp_path, train="\n".join(lines) + "\n", resource="pass\n")
    ahead = Ahead(python, tmp_path)
    assert ahead.at() == (4, RANK)
    assert ahead.release() is None
    assert ahead.ended() == executed(python, str(tmp_path)) == (0, str(tmp_path / "first") + "\n")
    assert os.listdir(str(tmp_path / "first")) == []
    ahead = Ahead(python, tmp_path)
    assert ahead.at() == (4, RANK)
    os.rmdir(str(tmp_path / "first"))
    said, what = ahead.release()
    assert "first" in said
    assert ahead.ended() == (0, "")
    os.makedirs(str(tmp_path / "first"))
    ahead = Ahead(python, tmp_path, before=["path " + str(tmp_path / "first")])
    assert ahead.at()[0] == 3
    ahead.kill()


LEAVING = {"by itself": ("import tempfile\nprint('x')\n", b"x\n"), "after a handler": ("import atexit\natexit.register(print, 'bye')\nprint('x')\n", b"x\nbye\n")}


@pytest.mark.parametrize("name", sorted(LEAVING))
def test_a_worker_that_leaves_ends_well(python, tmp_path, name):
    write(tmp_path, train=LEAVING[name][0])
    modules = tmp_path / ".modules"
    os.makedirs(str(modules))
    shutil.copy(os.path.join(SDK, "leave.py"), str(modules / "bellows_leave.py"))
    shutil.copy(os.path.join(SDK, "site_worker.py"), str(modules / "sitecustomize.py"))
    env = environment(str(tmp_path))
    done = subprocess.run([python, "train.py"], cwd=str(tmp_path), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, LEAVING[name][1])


# What is left at the end of a script, and whether its end could be seen.
MANAGER = "import contextlib\n@contextlib.contextmanager\ndef manager():\n    try: yield\n    finally: print('end')\n"
LEFT = {
    MANAGER + "@manager()\ndef decorated(): pass\n": True,
    MANAGER + "held = manager()\nheld.__enter__()\n": False,
    "import io\nheld = [io.BytesIO(), io.StringIO()]\nheld.append(held)\n": True,
    "import io\nclass Mine(io.BytesIO):\n    def close(self): print('end')\nheld = [Mine()]\n": False,
    "held = open('x', 'w')\n": False,
}


@pytest.mark.parametrize("script", sorted(LEFT))
def test_what_is_left_at_the_end(python, tmp_path, script):
    write(tmp_path, train=script + "import bellows_leave\nprint(bellows_leave.nothing_left())\n")
    shutil.copy(os.path.join(SDK, "leave.py"), str(tmp_path / "bellows_leave.py"))
    assert executed(python, str(tmp_path))[1].splitlines()[0] == str(LEFT[script])


def test_a_script_that_computes_without_end(python, tmp_path):
    write(tmp_path, train="def step(): pass\nfor _ in range(100000): step()\nprint('done')\n")
    ahead = Ahead(python, tmp_path, most_events=1000)
    assert ahead.at()[1] == "has computed for long"
    assert ahead.release() is None
    assert ahead.ended() == (0, "done\n")


def test_what_keeps_something_open_is_cold(python, tmp_path):
    package = str(tmp_path / "installed" / "site-packages" / "pkg.py")
    os.makedirs(os.path.dirname(package))
    with open(package, "w") as f:
        f.write("F = open('/dev/null', 'w')\nG = open('/dev/zero')\n")
    write(tmp_path, train="import pkg, os\nos.environ['RANK']\n")
    ahead = Ahead(python, tmp_path)
    assert ahead.message[0] == "parked" or "keeps" in ahead.message[1]
    ahead.kill()


def test_a_profiler_of_its_own(python, tmp_path):
    write(tmp_path, train="import sys, os\nseen = []\nsys.setprofile(lambda *a: seen.append(a[1]))\nos.getpid()\nsys.setprofile(None)\nprint('c_call' in seen, sys.getprofile())\n")
    ahead = Ahead(python, tmp_path)
    assert ahead.at() == (3, "sets a profiler")
    assert ahead.release() is None
    assert ahead.ended() == executed(python, str(tmp_path)) == (0, "True None\n")
