"""The launcher: a Python process that has imported what a script imports, and forks the workers that run it.

The shim starts it as `python [options] -c "import bellows_launcher; bellows_launcher.main(FD)"`, as the
job's owner and in the run's containment. On the socket FD it gets its orders, in lines of JSON, and
answers. It opens no device, keeps no socket but that one and no thread; where a module that it
imports does, or reads what only a plan tells, or cannot be imported, that module is left out: the
answer is "again", and the shim starts the launcher anew without it. What cannot be laid to a
module is "cold": then the workers are executed as without a launcher.

The launcher ends once it has forked, so that the workers become the shim's own children. A worker has
everything of its own (session, output, environment) before it says that it is born, and runs the script
when told to go.
"""

import atexit
import errno
import gc
import importlib
import importlib.machinery
import io
import json
import os
import random
import runpy
import signal
import socket
import stat
import sys
import threading
import time
import types
import weakref
import zipimport
from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple

# A worker that the shim does not adopt, or does not answer, in this time ends.
PATIENCE_S = 15.0
# The bits of SIGCANCEL and SIGSETXID in the kernel's masks.
GLIBC_SIGNALS = 1 << 31 | 1 << 32
PR_SET_PDEATHSIG, PR_SET_MM, PR_SET_MM_MAP = 1, 35, 14
MADV_COLLAPSE = 25
PAGE, HUGE_PAGE = os.sysconf("SC_PAGE_SIZE"), 2 << 20

Stamp = Tuple[int, int, int, int]  # device, inode, size, time of the last change of a file


def main(fd: int) -> None:
    """Carry out the shim's orders; returns never."""
    channel = Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    order = channel.receive()
    launcher = Launcher(order)
    launcher.load()
    if launcher.excluded:
        channel.send({"again": launcher.excluded})
        os._exit(0)
    why = launcher.unfit()
    if why:
        channel.send({"cold": why})
        os._exit(0)
    share_memory()
    channel.send({"ready": True, "loaded": len(launcher.stamps)})
    workers = []
    while True:
        message = channel.receive()
        if "worker" in message:
            workers.append((message, channel.descriptors[:2]))
            del channel.descriptors[:2]
            continue
        why = launcher.changed()
        if why:
            channel.send({"cold": why})
            os._exit(0)
        fork_all(channel, launcher, workers, order["shim"])


class Channel:
    """Lines of JSON, with descriptors, over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket, self.rest, self.descriptors = sock, b"", []  # type: ignore[var-annotated]

    def receive(self) -> Dict[str, Any]:
        while b"\n" not in self.rest:
            data, fds, _, _ = receive_fds(self.socket)
            if not data:
                os._exit(0)  # the shim is gone, or wants nothing more
            self.rest += data
            self.descriptors += fds
        line, self.rest = self.rest.split(b"\n", 1)
        message: Dict[str, Any] = json.loads(line)
        return message

    def send(self, message: Dict[str, Any]) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")


def receive_fds(sock: socket.socket) -> Tuple[bytes, List[int], int, Any]:
    """Receive data and descriptors, which children that are executed do not inherit."""
    size = socket.CMSG_SPACE(8 * 4)
    data, ancillary, flags, address = sock.recvmsg(1 << 16, size, socket.MSG_CMSG_CLOEXEC)
    fds: List[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += [int.from_bytes(content[i : i + 4], sys.byteorder) for i in range(0, len(content) - 3, 4)]
    return data, fds, flags, address


class Planned(str):
    """Stands for the name or the value of a variable that only a plan tells, for who reads the whole environment.

    Who looks for other variables drops it at once; who keeps it, or what is made of it, has a copy that will be wrong.
    """

    launcher: "Launcher"

    def __format__(self, form: str) -> str:
        self.launcher.taint("it makes texts of the whole environment, of which not all is known before the start")
        return super().__format__(form)

    def __radd__(self, other: str) -> str:
        return self.launcher.planned_text(other + str.__str__(self))


def tracked(name: str) -> Any:
    """Return a method of str whose results are known to be made of a planned text."""
    plain = getattr(str, name)

    def method(self: Planned, *args: Any, **named: Any) -> Any:
        made = plain(self, *args, **named)
        if isinstance(made, str):
            return self.launcher.planned_text(made)
        return type(made)(self.launcher.planned_text(part) for part in made)

    return method


for _name in ("__add__", "__getitem__", "__mod__", "__mul__", "__str__", "capitalize", "casefold", "lower", "lstrip", "partition", "removeprefix",
              "removesuffix", "replace", "rpartition", "rsplit", "rstrip", "split", "strip", "swapcase", "title", "translate", "upper"):  # fmt: skip
    if hasattr(str, _name):
        setattr(Planned, _name, tracked(_name))


class Launcher:
    """Imports modules, and knows what came of it."""

    def __init__(self, order: Dict[str, Any]) -> None:
        self.modules: List[str] = order["modules"]
        self.avoid: Set[str] = set(order["avoid"])
        self.planned = frozenset(order["planned"])  # variables that only a plan tells
        self.script: str = order["script"]
        self.is_module: bool = order["is_module"]
        self.args: List[str] = order["args"]
        self.command = words_of("cmdline")[:-2] + (["-m"] if self.is_module else []) + [self.script, *self.args]
        # What a wrapper around the interpreter executes has that program's name.
        direct = os.path.realpath(order["program"]) == os.path.realpath("/proc/self/exe")
        self.comm: str = order["comm"] if direct else ""
        self.excluded: Dict[str, str] = {}  # modules to be left out, and why
        self.stamps: Dict[str, Stamp] = {}  # of the files that were read
        self.stack: List[str] = []  # modules that are being loaded, the outermost first
        self.loaded: Set[str] = set()
        self.watching = True
        Planned.launcher = self
        self.texts: List[Any] = []  # weak references to what stands for planned variables
        self.threads = 1
        self.fds, self.shared = descriptors(), shared_memory()
        self.opened: Dict[Tuple[int, str], List[str]] = {}  # what was not open before, and who was being imported
        # What it was executed with; a wrapper around the interpreter may have changed that.
        self.environ: Dict[str, str] = order["env"]
        self.first_environ = dict(entry.split("=", 1) for entry in words_of("environ") if "=" in entry)
        self.cwd, self.umask = os.getcwd(), os.umask(0o022)
        os.umask(self.umask)
        self.signals = dispositions()
        self.states: Dict[str, Any] = {}  # of generators of random numbers, right after their import
        self.path0 = self.first_path()
        self.real = os.path.realpath(self.script)
        # What __main__.__file__ is once the script runs.
        if self.is_module:
            self.file = module_file(self.script, self.path0)
        else:
            self.file = main_file(self.script)

    def first_path(self) -> Optional[str]:
        """Return what Python puts first on sys.path for this command; None: nothing."""
        if getattr(sys.flags, "safe_path", False):
            return None
        if self.is_module:
            return self.cwd
        real = os.path.realpath(self.script)
        return real if holds_main(real) else os.path.dirname(real)

    def load(self) -> None:
        """Import the modules, as the script would, and find out which must not be."""
        # Not with -c any more: "" would be looked up in the working directory.
        if not getattr(sys.flags, "safe_path", False):
            sys.path.pop(0)
        if self.path0 is not None:
            sys.path.insert(0, self.path0)
        self.random_state()
        self.pose(not self.is_module)
        bootstrap: Any = importlib._bootstrap
        real_load = bootstrap._load_unlocked

        def load(spec: Any) -> Any:
            self.before(spec)
            try:
                return real_load(spec)
            finally:
                self.after(spec)

        sys.addaudithook(self.audit)
        kind: Any = type(os.environ)
        for environment in (os.environ, os.environb):
            environment.__class__ = observed(kind, self)
        bootstrap._load_unlocked = load
        try:
            for name in self.modules:
                if not self.avoided(name):
                    if self.is_module:
                        self.pose(not self.script.startswith(name + ".") and name != self.script)
                    self.load_one(name)
        finally:
            for environment in (os.environ, os.environb):
                environment.__class__ = kind
            bootstrap._load_unlocked = real_load
        self.watching = False
        self.spread()

    def pose(self, found: bool) -> None:
        """Have imports see the arguments and the main module of the script.

        With -m nothing is found yet while the packages around the module are imported.
        """
        sys.argv[:] = [(self.file or "-m") if self.is_module and found else "-m" if self.is_module else self.script, *self.args]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = self.command
        self.argv = list(sys.argv)
        space = empty_main()
        if found and self.file:
            space["__file__"] = self.file

    def avoided(self, name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[:i]) in self.avoid for i in range(1, len(parts) + 1))

    def spread(self) -> None:
        """Leave out what has imported what is left out, as far as its names show.

        Who imports a module that is loaded already is not seen to load it, and would only be by the
        next launcher, and who imports that by the one after.
        """
        grown = bool(self.excluded)
        while grown:
            grown = False
            for name in self.loaded - set(self.excluded):
                used = used_by(name) & set(self.excluded)
                if used:
                    grown = True
                    self.exclude(name, "it imports " + min(used))
                    self.loaded.discard(name)
            self.loaded -= set(self.excluded)

    def load_one(self, name: str) -> None:
        try:
            importlib.import_module(name)
        except BaseException:
            # As for the script, which may have looked for it and lived without, or will see for itself.
            # What it leaves behind of a process is looked at all the same.
            pass

    def before(self, spec: Any) -> None:
        self.stack.append(spec.name)
        self.loaded.add(spec.name)
        if spec.name in self.avoid:
            self.taint(f"it imports {spec.name}")
        if spec.has_location and spec.origin:
            self.stamp(spec.origin)

    def after(self, spec: Any) -> None:
        threads = os.stat("/proc/self/task").st_nlink - 2
        if threads > self.threads:
            self.threads = threads_after_fork()
            if self.threads > 1:
                self.taint(f"it starts {threads - 1} threads, which a fork would not keep")
        self.look_for_descriptors()
        if self.texts:
            if any(text() is not None for text in self.texts):
                self.taint("it keeps a copy of the environment, of which not all is known before the start")
            self.texts.clear()
        if spec.name in ("random", "numpy.random.mtrand"):
            self.random_state()
        self.stack.pop()

    def look_for_descriptors(self) -> None:
        """Lay what is open to those in whose import it was first seen, if it still is when all of them have ended.

        What a module has open for a moment is seen by what it imports meanwhile. Memory is laid to the outermost
        module: what that imports is tried without it by the next launcher.
        """
        now = descriptors()
        for fd in now - self.fds:
            self.opened.setdefault(fd, list(self.stack))
        if len(self.stack) > 1:
            return
        for fd in sorted(now & set(self.opened)):
            for name in reversed(self.opened[fd]):
                self.exclude(name, "it keeps a file, a device or a socket open: " + fd[1])
        self.opened.clear()
        self.fds = now
        shared = shared_memory()
        for _, path in shared - self.shared:
            self.exclude(self.stack[0], "it makes memory or a lock that all workers would share: " + (path or "without a name"))
        self.shared = shared

    def planned_text(self, text: str) -> Planned:
        made = Planned(text)
        self.texts.append(weakref.ref(made))
        return made

    def taint(self, why: str) -> None:
        for name in reversed(self.stack):
            self.exclude(name, why)

    def exclude(self, name: str, why: str) -> None:
        if name not in self.avoid:
            self.excluded.setdefault(name, why[:300])

    def audit(self, event: str, args: Any) -> None:
        if event != "open" or not self.watching:
            return
        path, _, flags = args
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and isinstance(flags, int) and flags & 3 == os.O_RDONLY and not path.endswith(".pyc"):
            self.stamp(path)

    def stamp(self, path: str) -> None:
        path = os.path.join(self.cwd, path)
        if path not in self.stamps and not path.startswith(("/proc/", "/sys/", "/dev/")):
            now = stamp(path)
            if now:
                self.stamps[path] = now

    def random_state(self) -> None:
        for name, state in random_states().items():
            self.states.setdefault(name, state)

    def unfit(self) -> str:
        """Return why workers cannot be forked of this process; empty if they can."""
        sys.stdout.flush()
        sys.stderr.flush()
        if dispositions() != self.signals or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return "an import changes how signals are handled"
        if sys.argv != self.argv or getattr(sys, "orig_argv", self.command) != self.command:
            return "an import changes sys.argv"
        if os.getcwd() != self.cwd:
            return "an import changes the working directory"
        umask = os.umask(0o077)
        os.umask(umask)
        if umask != self.umask:
            return "an import changes the umask"
        if threads_after_fork() > 1:
            return "threads run that a fork would not keep"
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return "an import has started a process"
        except ChildProcessError:
            pass
        with open("/proc/self/maps", "rb") as f:
            for line in f:
                name = os.path.basename(line.rstrip())
                if name.startswith((b"libcuda.so", b"libnvidia-ml.so")):
                    return f"an import loads {name.decode()}: what has touched CUDA cannot be forked"
        if threading.active_count() > 1 or threading.current_thread() is not threading.main_thread():
            return "threads run that a fork would not keep"
        self.late = random_states()
        return ""

    def changed(self) -> str:
        """Return what has changed since the imports; empty if nothing has."""
        if os.path.realpath(self.script) != self.real and not self.is_module:
            return f"{self.script} is another file now"
        for path, was in self.stamps.items():
            if stamp(path) != was:
                return f"{path} has changed since it was read"
        if self.path0 is not None:
            try:
                entries = {e.split(".")[0] for e in os.listdir(self.path0)}
            except OSError as err:
                return f"{self.path0}: {err}"
            for name in entries & set(sys.modules):
                spec = getattr(sys.modules[name], "__spec__", None)
                if spec is None or not shadowed(spec, self.path0) or name in sys.builtin_module_names:
                    continue
                found = importlib.machinery.PathFinder.find_spec(name, [self.path0])
                if found is not None and found.origin is not None and found.origin != spec.origin:
                    return f"{found.origin} is new, and hides {name}"
        return ""


def module_file(name: str, path0: Optional[str]) -> str:
    """Return the file that `python -m name` runs, without importing anything; empty if it is not found like that."""
    parts = name.split(".")
    path: Any = [p for p in (path0, *sys.path[1:]) if p is not None]
    try:
        spec = None
        for i in range(len(parts)):
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: i + 1]), path)
            if spec is None:
                return ""
            path = spec.submodule_search_locations
        if path is not None:
            spec = importlib.machinery.PathFinder.find_spec(name + ".__main__", path)
        return (spec.origin or "") if spec is not None else ""
    except (ImportError, OSError, TypeError, ValueError):
        return ""


def holds_main(script: str) -> bool:
    """Report whether a script is a folder or a zip file, whose __main__.py is run."""
    try:
        return os.path.isdir(script) or bool(zipimport.zipimporter(script))
    except zipimport.ZipImportError:
        return False


def main_file(script: str) -> str:
    """Return what a script that is a file, or has a __main__.py in it, is called in the main module."""
    if holds_main(script):
        return os.path.join(script, "__main__.py")
    return os.path.join(os.getcwd(), script) if sys.version_info >= (3, 9) else script


def empty_main() -> Dict[str, Any]:
    """Return the namespace of the main module, with what an interpreter puts into it before it runs anything."""
    space = sys.modules["__main__"].__dict__
    for name in list(space):
        if name not in ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__", "__annotations__"):
            del space[name]
    return space


def words_of(name: str) -> List[str]:
    """Return what the kernel shows of this process's command, which ends with -c and its code, or environment."""
    with open("/proc/self/" + name, "rb") as f:
        return [os.fsdecode(word) for word in f.read().split(b"\0")[:-1]]


def shadowed(spec: Any, path: str) -> bool:
    """Report whether a loaded module is one that a new file in path would hide."""
    return not (spec.origin or "").startswith(path + os.sep) and spec.name not in ("site", "sitecustomize")


def used_by(name: str) -> Set[str]:
    """Return the modules of which a loaded one has names: themselves, their functions, their classes."""
    found: Set[str] = set()
    module = sys.modules.get(name)
    if not issubclass(type(module), types.ModuleType):
        return found
    # By their types, and of their own dictionaries: what stands for a module, a class or a function runs code once it is asked.
    names: Dict[str, Any] = object.__getattribute__(module, "__dict__")
    for value in list(names.values()):
        if type(value) is types.FunctionType:
            of: Any = value.__module__
        elif type(value) is types.ModuleType:
            of = vars(value).get("__name__")
        elif type(value) is type:
            of = vars(value).get("__module__")
        else:
            continue
        if isinstance(of, str) and of != name:
            found.add(of)
    return found


def observed(kind: type, launcher: Launcher) -> type:
    """Return a kind of environment that tells who reads what only a plan tells."""

    def note(key: Any) -> None:
        name = os.fsdecode(key) if isinstance(key, (bytes, str)) else ""
        if name in launcher.planned:
            launcher.taint(f"it reads {name}, which is not known before the start")

    class Observed(kind):  # type: ignore[misc]
        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, Planned):
                return launcher.planned_text("")
            note(key)
            return super().__getitem__(key)

        def __setitem__(self, key: Any, value: Any) -> None:
            note(key)
            super().__setitem__(key, value)

        def __iter__(self) -> Any:
            yield from super().__iter__()
            if self is os.environb:
                launcher.taint("it reads the whole environment, of which not all is known before the start")
                return
            for name in launcher.planned:
                yield launcher.planned_text(name)

    return Observed


def descriptors() -> Set[Tuple[int, str]]:
    """Return the open descriptors, each with what it is of."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink("/proc/self/fd/" + name)))
        except OSError:
            pass  # that of the listing itself
    return found


def shared_memory() -> Set[Tuple[str, str]]:
    """Return what of the memory a fork would not copy, but share: where it lies, and of what file it is."""
    found = set()
    with open("/proc/self/maps", "rb") as f:
        for line in f:
            where, access, _, _, _, *path = line.split(None, 5)
            if access.endswith(b"s") and b"w" in access:
                found.add((os.fsdecode(where), os.fsdecode(path[0].strip()) if path else ""))
    return found


def dispositions() -> List[str]:
    """Return which signals are blocked, ignored and caught, but for those that glibc keeps to itself.

    It catches them from the first thread on, of which there need be nothing left.
    """
    found = []
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("SigBlk", "SigIgn", "SigCgt")):
                name, mask = line.split()
                found.append(f"{name} {int(mask, 16) & ~GLIBC_SIGNALS:x}")
    return found


def threads_after_fork() -> int:
    """Return how many threads remain once a fork has had libraries end theirs, as OpenBLAS does."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = 0
    for pause in (0.001, 0.01, 0.1, 0):
        threads = os.stat("/proc/self/task").st_nlink - 2
        if threads == 1:
            break
        time.sleep(pause)  # one that was joined is there for a moment yet
    return threads


def stamp(path: str) -> Optional[Stamp]:
    try:
        s = os.stat(path)
    except OSError:
        return None
    return (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) if stat.S_ISREG(s.st_mode) else None


def random_states() -> Dict[str, Any]:
    """Return the states of the process's generators of random numbers that begin with entropy."""
    states: Dict[str, Any] = {"random": random.getstate()}
    mtrand = sys.modules.get("numpy.random.mtrand")
    if mtrand is not None and hasattr(mtrand, "get_state"):
        name, keys, *rest = mtrand.get_state(legacy=True)
        states["numpy"] = (name, keys.tobytes(), *rest)
    return states


def share_memory() -> None:
    """Have what was imported stay shared with the workers, and make it cheap to fork.

    A fork copies an entry for each page, and an end gives each back: with PyTorch that takes 9 and 14 ms; 2 and 4
    where the kernel has joined them into huge pages (Linux 6.1). A worker that writes into one gets a small
    page of its own, as without.
    """
    gc.collect()
    gc.freeze()  # the workers' collections leave the imported objects' pages alone
    try:
        join_pages()
    except OSError:
        pass  # a kernel that does not tell which pages there are


def join_pages() -> None:
    """Join into huge pages what is in memory for the most part: elsewhere it would take more memory."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/maps") as f:
        areas = [line.split()[:5] for line in f]
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for addresses, access, _, _, inode in areas:
            if access != "rw-p" or inode != "0":
                continue
            start, end = (int(a, 16) for a in addresses.split("-"))
            for at in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
                entries = os.pread(pages.fileno(), HUGE_PAGE // PAGE * 8, at // PAGE * 8)
                if sum(byte >> 7 for byte in entries[7::8]) * PAGE < HUGE_PAGE * 3 // 4:
                    continue
                if libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE) != 0:
                    if ctypes.get_errno() != errno.EINVAL:  # that is an area of another kind
                        return  # there are no huge pages left


def fork_all(channel: Channel, launcher: Launcher, workers: List[Any], shim: int) -> NoReturn:
    """Fork the workers, and end: the shim is their next living ancestor that adopts, also where a wrapper is the parent."""
    for message, (out, hello) in workers:
        if os.fork() == 0:
            try:
                channel.socket.close()
                for _, fds in workers:
                    for fd in set(fds) - {out, hello}:
                        os.close(fd)
                become(launcher, message, out, socket.socket(fileno=hello), shim)
            except BaseException as err:
                os.write(2, f"bellows: the worker could not be forked: {type(err).__name__}: {err}\n".encode())
                os._exit(1)
    channel.send({"forked": len(workers)})
    os._exit(0)


def become(launcher: Launcher, message: Dict[str, Any], out: int, hello: socket.socket, shim: int) -> NoReturn:
    """Become a worker, and run the script."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    os.setsid()
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.chdir(launcher.cwd)
    os.umask(launcher.umask)
    show_as(libc, launcher, changed_like(message["env"], launcher.environ, launcher.first_environ))
    set_environment(changed_like(message["env"], launcher.environ, dict(os.environ)))
    restore_random(launcher)
    importlib.invalidate_caches()
    thread: Any = threading.main_thread()
    thread._set_native_id()
    if launcher.comm:
        with open("/proc/self/comm", "w") as f:
            f.write(launcher.comm)
    record(launcher, message)
    adopted(libc, shim)
    hello.settimeout(PATIENCE_S)
    try:
        hello.sendall(b"born\n")
        wanted = hello.recv(1) == b"g"
    except OSError:
        wanted = False
    if not wanted:
        os._exit(1)  # the shim has given it up
    hello.close()
    run(launcher, libc)


def adopted(libc: Any, shim: int) -> None:
    """Wait until the launcher has ended and the shim is the parent; die with it from then on."""
    import ctypes

    end = time.monotonic() + PATIENCE_S
    while os.getppid() != shim:
        if time.monotonic() > end:
            raise TimeoutError("the shim has not adopted it")
        time.sleep(0.0002)
    # By the shim's first thread, which lives as long as the shim.
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != shim:
        raise OSError(ctypes.get_errno(), "the parent death signal cannot be set")


def changed_like(env: Dict[str, str], before: Dict[str, str], after: Dict[str, str]) -> Dict[str, str]:
    """Return env with the changes that lead from before to after."""
    changed = {k: v for k, v in env.items() if k in after or k not in before}
    changed.update({k: v for k, v in after.items() if before.get(k) != v})
    return changed


def set_environment(env: Dict[str, str]) -> None:
    """Make os.environ this, with what is a worker's and what a wrapper and imports have set."""
    for name in list(os.environ):
        del os.environ[name]
    for name in env:
        os.environ[name] = env[name]


def show_as(libc: Any, launcher: Launcher, env: Dict[str, str]) -> None:
    """Have the kernel show the command line and the environment of a worker, where it allows that."""
    import ctypes

    arguments = b"".join(os.fsencode(a) + b"\0" for a in launcher.command)
    variables = b"".join(os.fsencode(f"{k}={v}") + b"\0" for k, v in env.items())
    area = ctypes.create_string_buffer(arguments + variables, len(arguments) + len(variables))
    start = ctypes.addressof(area)
    with open("/proc/self/stat", "rb") as f:
        fields = f.read().rpartition(b")")[2].split()

    def field(number: int) -> int:
        return int(fields[number - 3])

    places_of_memory: Any = [(f"a{i}", ctypes.c_uint64) for i in range(11)]

    class Map(ctypes.Structure):
        _fields_ = [*places_of_memory, ("auxv", ctypes.c_void_p), ("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_int32)]

    libc.sbrk.restype = ctypes.c_void_p
    end = start + len(arguments)
    places = [field(26), field(27), field(45), field(46), field(47), libc.sbrk(0), field(28)]
    places += [start, end, end, end + len(variables)]
    layout = Map(*places, None, 0, -1)
    if libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(layout), ctypes.c_ulong(ctypes.sizeof(layout)), 0) == 0:
        launcher.shown = area  # type: ignore[attr-defined] # for as long as the process lives


def restore_random(launcher: Launcher) -> None:
    """Begin random numbers with entropy, but those whose generators an import has set."""
    if launcher.late["random"] == launcher.states["random"]:
        random.seed()
    else:
        random.setstate(launcher.late["random"])
    mtrand = sys.modules.get("numpy.random.mtrand")
    if mtrand is not None and launcher.late.get("numpy") == launcher.states.get("numpy"):
        mtrand.seed()


def record(launcher: Launcher, message: Dict[str, Any]) -> None:
    """Have the first worker go on writing down what is imported."""
    recorder = sys.modules.get("sitecustomize")
    if message["worker"] == 0 and hasattr(recorder, "Recorder"):
        recorder.Recorder.start()  # type: ignore[union-attr]


def run(launcher: Launcher, libc: Any) -> NoReturn:
    """Run the script as the interpreter would, and leave."""
    sys.argv[:] = ["-m" if launcher.is_module else launcher.script, *launcher.args]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = launcher.command
    space = empty_main()
    sys.modules.pop("bellows_launcher", None)
    kind: Any = None
    value: Any = None
    trace: Any = None
    code = None if launcher.is_module or holds_main(launcher.script) else script_code(libc, launcher.script, space)
    try:
        if code is not None:
            exec(code, space)
        elif launcher.is_module:
            runpy._run_module_as_main(launcher.script, True)  # type: ignore[attr-defined]
        else:
            runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
    except BaseException:
        kind, value, trace = sys.exc_info()
        trace = trace.tb_next  # this function is not the script's
    leave(libc, kind, value, trace)


def script_code(libc: Any, path: str, space: Dict[str, Any]) -> types.CodeType:
    """Return the script's code, and give its namespace what the interpreter does."""
    name = main_file(path)
    try:
        with io.open_code(name) as f:
            source = f.read()
    except OSError as err:
        sys.stderr.write(f"{launcher_name()}: can't open file {name!r}: [Errno {err.errno}] {err.strerror}\n")
        leave(libc, SystemExit, SystemExit(2), None)
    space["__file__"] = name
    if sys.version_info < (3, 15):
        space["__cached__"] = None
    space["__loader__"] = importlib.machinery.SourceFileLoader("__main__", name)
    try:
        code: types.CodeType = compile(source, name, "exec", dont_inherit=True)
    except BaseException:
        kind, value, _ = sys.exc_info()
        leave(libc, kind, value, None)  # of no line of the script's
    return code


def launcher_name() -> str:
    """Return what the interpreter calls itself in its messages."""
    return sys.orig_argv[0] if getattr(sys, "orig_argv", None) else sys.executable


def leave(libc: Any, kind: Any, value: Any, trace: Any) -> NoReturn:
    """End as an interpreter does that has run this, but do not tear it down."""
    status, interrupted = 0, False
    if kind is not None:
        status, interrupted = ending(kind, value, trace)
    del kind, value, trace
    for step in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
        try:
            step()
        except BaseException:
            sys.excepthook(*sys.exc_info())
    drop_main()
    finish_files()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = 120  # as of an interpreter that cannot flush them
    libc.fflush(None)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


def drop_main() -> None:
    """Drop what the main module's names stand for, so that it ends as in an interpreter that is torn down.

    Not functions, classes and modules: what ends may need them. And not under a thread that runs on, as a
    teardown would not let it.
    """
    if threading.active_count() > 1:
        return
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    space = sys.modules["__main__"].__dict__ if "__main__" in sys.modules else {}
    for name, value in list(space.items()):
        if not name.startswith("__") and not isinstance(value, (type, types.FunctionType, types.ModuleType)):
            space.pop(name, None)
        del value


def finish_files() -> None:
    """Write what files that are open hold back: nothing destroys them, which would."""
    archives = classes_of(("zipfile", "ZipFile"))
    base: Any = io.IOBase.__base__
    # By their types: isinstance runs code of what it is asked about, and takes a tenth of a second for the objects of PyTorch.
    wanted = with_subclasses(base, *archives)
    found = [o for o in gc.get_objects() if type(o) in wanted]
    streams = [o for o in found if issubclass(type(o), base)]
    written = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    compressed = classes_of(("gzip", "GzipFile"), ("bz2", "BZ2File"), ("lzma", "LZMAFile"))
    others = [o for o in streams if type(o).__module__ not in ("_io", "io", "gzip", "bz2", "lzma", "_compression")]
    steps: List[Tuple[str, List[Any]]] = [
        ("flush", [o for o in streams if issubclass(type(o), io.TextIOWrapper)]),
        ("close", [o for o in streams if issubclass(type(o), compressed)]),
        ("close", [o for o in others if not issubclass(type(o), (*compressed, *written)) and o is not sys.stdout and o is not sys.stderr]),
        ("close", [o for o in found if issubclass(type(o), archives)]),
        ("flush", [o for o in streams if issubclass(type(o), written)]),
    ]
    for what, of in steps:
        for stream in of:
            try:
                getattr(stream, what)()
            except BaseException:
                pass  # it is closed, or for reading only


def with_subclasses(*classes: type) -> Set[type]:
    """Return the classes and all that are made of them."""
    found: Set[type] = set()
    left = list(classes)
    while left:
        kind = left.pop()
        if kind not in found:
            found.add(kind)
            left += type.__subclasses__(kind)
    return found


def classes_of(*names: Tuple[str, str]) -> Tuple[type, ...]:
    """Return the classes of modules that are loaded."""
    return tuple(getattr(sys.modules[module], name) for module, name in names if hasattr(sys.modules.get(module), name))


def ending(kind: Any, value: Any, trace: Any) -> Tuple[int, bool]:
    """Tell of an exception that nothing has caught; return the status, and whether it was a KeyboardInterrupt."""
    if issubclass(kind, SystemExit):
        code = value.code
        if code is None:
            return 0, False
        if isinstance(code, int):
            return code & 0xFF, False
        sys.stdout.flush()
        sys.stderr.write(f"{code}\n")
        return 1, False
    value.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = kind, value, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = value
    try:
        sys.excepthook(kind, value, trace)
    except SystemExit as err:
        return ending(SystemExit, err, None)
    except BaseException:
        sys.__excepthook__(*sys.exc_info())
    return 1, issubclass(kind, KeyboardInterrupt)
