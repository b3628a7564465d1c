"""What runs a script ahead of its generation, and parks it where it first looks at, or changes, anything outside.

The shim starts a worker before there is a plan, with the script's own command, without devices and without the
variables that only a plan tells. sitecustomize calls begin() before a line of the script has run. From then on each call
is looked at before it is made: those that a plan, another process or the moment decides, and those that change something
outside of the process, park it. A parked process waits for its plan, and goes on from that very call.

What was read until then (files, folders, what was not there) is compared before the script goes on. If any of it
is another now, the process ends, and the shim executes the worker as without it.

Calls are seen by Python's profiler and by its audit events, both of which end at the release. Code is of two kinds: the
user's own, which may call only what is known to change and to ask nothing (the tables below), and that of
the standard library and of installed packages, which may do what an import does, but for what is listed as WATCHED.

The shim and this process speak over a socket, in messages of fields that end with a zero byte; an empty one ends a message.

    process: hello
    shim:    planned=NAME … before=WHAT …
    process: at, NAME                 a module that the user's own code imports
    process: early                    it begins to import early what its framework imports late
    process: parked, where, why, meets | -, readers | -    readers: it has had a process read, whose bytes count as its own
    shim:    NAME=VALUE …             what the plan decides
    process: ok | cold, why, WHAT     WHAT to park before, the next time
    shim:    go
"""

import os
import sys

import bellows_early

MYPY = False
if MYPY:
    from types import CodeType, FrameType
    from typing import Any, Callable, Dict, List, NoReturn, Optional, Set, Tuple

USER, LIBRARY, GENERATED = 1, 2, 3
ENDED = "has ended"
SIGXFSZ = 25
# Frameworks whose workers meet at MASTER_PORT, at a server that takes any number of connections.
MEETING = ("torch.distributed.distributed_c10d", "jax._src.distributed")

# A script that computes for so long without an import is parked: it is under way. In events of the profiler.
MOST_EVENTS = 20_000_000
MOST_STAMPS = 100_000

# Modules of the standard library whose functions ask nothing of the outside and change nothing there, but for what
# audit events tell (opened files, processes, sockets, threads).
PURE = frozenset(
    """_bootlocale _collections_abc _compression _markupbase _py_abc _pydecimal _sitebuiltins _strptime _weakrefset abc argparse ast base64
    bisect bz2 calendar cmath codecs collections colorsys configparser contextlib contextvars copy copyreg csv dataclasses
    datetime decimal difflib dis encodings enum fnmatch fractions functools genericpath getopt gettext glob graphlib gzip
    hashlib heapq hmac html importlib inspect io ipaddress itertools json keyword linecache locale logging lzma math
    numbers opcode operator optparse os pathlib pickle pickletools pkgutil plistlib posixpath pprint queue quopri random re
    reprlib sched secrets shlex signal site sre_compile sre_constants sre_parse stat statistics string struct sysconfig
    tarfile textwrap threading token tokenize tomllib traceback types typing unicodedata urllib uuid warnings weakref xml zipfile zipimport
    zoneinfo ntpath _pyio _threading_local enum runpy multiprocessing concurrent""".split()
)
# What of these does all the same; of logging, what takes the time.
IMPURE = frozenset(
    """logging._log logging.log logging.info logging.debug logging.warning logging.warn logging.error logging.critical logging.exception
    logging.makeRecord logging.makeLogRecord logging.handle uuid.uuid1 uuid.uuid6 uuid.uuid7 uuid.getnode os.popen os.get_exec_path os.cpu_count
    concurrent.submit concurrent.map multiprocessing.active_children signal.sigwait signal.pause sched.run urllib.urlopen urllib.urlretrieve
    random.SystemRandom os.getlogin os.ctermid signal.getsignal""".split()
)
# Installed packages, by module: all of it, or these names.
VETTED = {
    "numpy": None, "typing_extensions": None, "six": None, "attr": None, "attrs": None, "yaml": None, "absl.flags": None, "mpmath": None, "sympy": None,
    "torch.nn": None, "torch.optim": None, "torch.random": None, "torch.autograd": None, "torch.utils._contextlib": None, "torch.utils.data": None,
    "torch.backends": None, "torch._tensor": None, "torch.functional": None, "torch.distributions": None, "torch._tensor_str": None, "torch._utils": None,
    "torch": frozenset(
        """set_default_dtype set_default_tensor_type use_deterministic_algorithms set_float32_matmul_precision is_tensor typename manual_seed
        get_default_dtype set_warn_always set_printoptions set_num_threads""".split()
    ),
    # Before CUDA is used these only note the seed, as torch.manual_seed does with them.
    "torch.cuda.random": frozenset(["manual_seed", "manual_seed_all"]),
    "jax._src.config": frozenset(["update", "config", "__call__", "set_or_raise"]),
    # Decorators that note what a command takes, and a comparison of versions: all of it stays in memory.
    "click.decorators": None, "click.types": frozenset(["__init__"]), "typer.main": frozenset(["__init__", "command", "callback", "decorator", "add_typer"]),
    "typer.params": frozenset(["Option", "Argument"]), "hydra.main": frozenset(["main", "main_decorator"]), "packaging.version": None,
    "transformers.utils": frozenset(["check_min_version"]), "accelerate.logging": frozenset(["get_logger"]),
}  # type: Dict[str, Optional[frozenset[str]]]  # fmt: skip
# Modules that are no Python, by what their functions and the methods of their types may do.
PURE_C = frozenset(
    """builtins math cmath _operator operator itertools _functools functools _collections collections _struct struct _json _random random _sre re
    _string string _abc _heapq _bisect binascii zlib _hashlib _sha1 _sha2 _sha256 _sha512 _sha3 _md5 _blake2 unicodedata atexit gc sys _warnings
    _signal _locale _imp _codecs _io io errno _weakref weakref _weakrefset _typing typing array _contextvars contextvars _datetime datetime _decimal decimal
    _pickle pickle _csv csv _statistics _bz2 _lzma marshal _ast _opcode types _thread threading posix os _stat stat _uuid _tokenize _queue queue _symtable
    numpy""".split()
)
IMPURE_C = frozenset(
    """builtins.input builtins.breakpoint posix.access posix.stat posix.lstat posix.readlink posix.statvfs posix.fstatvfs posix.getloadavg posix.times
    posix.write posix.writev posix.pwrite posix.sendfile posix.get_terminal_size posix.getxattr posix.listxattr posix.nice posix.sched_yield
    posix.getlogin posix.ctermid posix.ttyname posix.sysconf posix.pathconf posix.fpathconf posix.confstr posix.uname posix.eventfd
    datetime.now datetime.utcnow datetime.today date.today _signal.alarm _signal.setitimer _signal.pause _signal.sigwait _signal.sigtimedwait _signal.raise_signal
    _uuid.generate_time_safe _thread.start_new_thread _thread.start_joinable_thread
    DirEntry.stat DirEntry.is_dir DirEntry.is_file DirEntry.is_symlink DirEntry.is_junction""".split()
)
TORCH_C = frozenset(
    """tensor zeros ones arange linspace empty full eye rand randn randint randperm as_tensor from_numpy stack cat manual_seed set_num_threads _set_default_dtype
    zeros_like ones_like sqrt exp log sum mean is_grad_enabled set_grad_enabled is_floating_point finfo iinfo outer mul add sub div matmul
    tril triu cos sin pow get_default_dtype is_tensor set_printoptions""".split()
)
# What parks also the code of packages: the priority, the limits and the children of a process that runs ahead are others.
WATCHED_C = frozenset(
    """mkfifo mknod nice getpriority setpriority sched_setaffinity sched_getscheduler sched_setscheduler sched_getparam sched_setparam _exit abort wait wait3
    wait4 waitpid waitid sync ftruncate posix_fallocate copy_file_range setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups
    initgroups setsid setpgid chroot pidfd_open unshare setns getrlimit setrlimit prlimit getrusage getloadavg getprofile openpty posix_openpt memfd_create
    timerfd_create shm_open shm_unlink sem_unlink start_new_thread start_new start_joinable_thread _cuda_getDeviceCount _cuda_init""".split()
)
PRINTS = frozenset(["print", "write", "writelines"])
WATCHED_IN = frozenset(["posix", "os", "sys", "resource", "_thread", "_posixshmem", "_multiprocessing", "torch._C"])
# Audit events that park any code. Those of files are looked at one by one.
EFFECTS = {
    "os.remove": "removes a file", "os.rename": "renames a file", "os.rmdir": "removes a folder", "os.link": "makes a link",
    "os.symlink": "makes a link", "os.chmod": "changes a file's mode", "os.chown": "changes a file's owner", "os.truncate": "truncates a file",
    "os.utime": "changes a file's times", "os.setxattr": "changes a file's attributes", "os.removexattr": "changes a file's attributes",
    "os.chflags": "changes a file's flags", "tempfile.mkstemp": "makes a temporary file", "tempfile.mkdtemp": "makes a temporary folder",
    "fcntl.flock": "locks a file", "fcntl.lockf": "locks a file", "fcntl.ioctl": "asks a device", "os.lockf": "locks a file",
    "subprocess.Popen": "starts a process", "os.system": "starts a process", "os.exec": "executes a program", "os.fork": "starts a process",
    "os.forkpty": "starts a process", "os.posix_spawn": "starts a process", "os.spawn": "starts a process", "pty.spawn": "starts a process",
    "os.kill": "sends a signal", "os.killpg": "sends a signal", "signal.pthread_kill": "sends a signal", "socket.connect": "opens a connection",
    "socket.sendto": "sends to another process", "socket.sendmsg": "sends to another process", "socket.getaddrinfo": "asks the network for a name",
    "socket.gethostbyname": "asks the network for a name", "socket.gethostbyaddr": "asks the network for a name",
    "socket.getnameinfo": "asks the network for a name", "socket.getservbyname": "asks the network for a name", "socket.sethostname": "changes the host's name",
    "_thread.start_new_thread": "starts a thread", "_thread.start_joinable_thread": "starts a thread", "sys.setprofile": "sets a profiler",
    "sys.settrace": "sets a tracer", "sys.monitoring.register_callback": "observes itself", "builtins.input": "reads its input",
    "resource.setrlimit": "changes a limit", "resource.prlimit": "changes a limit", "syslog.openlog": "writes to the system's log",
    "syslog.syslog": "writes to the system's log", "urllib.Request": "asks the network", "http.client.connect": "opens a connection",
    "webbrowser.open": "starts a process", "shutil.move": "moves a file",
}  # fmt: skip
# Processes that packages start to read what stays as it is.
READERS = (["/sbin/ldconfig", "-p"], ["ldconfig", "-p"], ["uname", "-p"])
# Modules of packages that go through all variables, and take those that begin with a name of their own.
OWN_VARIABLES = ("tqdm.utils", "fsspec.config", "diffusers.utils.import_utils")
ACCELERATORS = ("libcuda.so", "libnvidia-ml.so", "libamdhip64.so", "librocm_smi", "libhsa-runtime", "libze_loader", "libtpu.so", "libamd_smi")
# Functions of packages that ask for devices, by name and end of the file.
DEVICES = {
    "is_available": ("/torch/cuda/__init__.py", "/torch/xpu/__init__.py", "/torch/accelerator/__init__.py", "/torch/mtia/__init__.py"),
    "device_count": ("/torch/cuda/__init__.py", "/torch/xpu/__init__.py", "/torch/accelerator/__init__.py"),
    "_lazy_init": ("/torch/cuda/__init__.py", "/torch/xpu/__init__.py", "/torch/mtia/__init__.py"),
    "current_accelerator": ("/torch/accelerator/__init__.py",),
    "_init_backend": ("/jax/_src/xla_bridge.py",), "backends": ("/jax/_src/xla_bridge.py",), "get_backend": ("/jax/_src/xla_bridge.py",),
    "process_index": ("/jax/_src/xla_bridge.py",),
    "initialize": ("/jax/_src/distributed.py",),
}  # fmt: skip

# Modules that have functions which are looked at for every caller.
HOT = frozenset(
    """os genericpath posixpath threading tempfile copy pathlib pathlib._local pathlib._abc importlib.util multiprocessing.synchronize torch.cuda torch.xpu torch.accelerator torch.mtia jax._src.xla_bridge jax._src.distributed""".split()
)


def cold(fd: int, why: str, before: str = "") -> "NoReturn":
    """Have the shim execute the worker as without this process."""
    try:
        send(fd, "cold", why, before or "-")
    finally:
        os._exit(0)


def send(fd: int, *fields: str) -> None:
    data = b"".join(os.fsencode(f.replace("\0", " ")[:1000] or "-") + b"\0" for f in fields) + b"\0"
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> "List[str]":
    """Return the next message's fields; the process ends if the shim is gone, or wants nothing more."""
    data = b""
    while not data.endswith(b"\0\0") and data != b"\0":
        more = os.read(fd, 1 << 16)
        if not more:
            os._exit(0)
        data += more
    return [os.fsdecode(f) for f in data.split(b"\0") if f]


def begin(fd: int, own: str, check: bool, ends: bool = False) -> "Ahead":
    """Have what follows run ahead, or only say that it would.

    own is the folder of Bellows's own modules; ends says that the caller will call end.
    """
    os.set_inheritable(fd, False)
    send(fd, "hello")
    if check:
        os._exit(0)
    del sys.modules["bellows_early"]
    ahead = Ahead(fd, own, receive(fd))
    ahead.ends = ends
    ahead.look_back()
    ahead.start()
    return ahead


class Ahead:
    """Looks at what the script does, and parks it."""

    def __init__(self, fd: int, own: str, told: "List[str]") -> None:
        self.fd, self.own = fd, own + os.sep
        self.planned = frozenset(t[len("planned=") :] for t in told if t.startswith("planned="))
        self.before = frozenset(t[len("before=") :] for t in told if t.startswith("before="))
        self.environ = dict(os.environ)
        self.readers = False
        self.running = True
        self.busy = False  # in here: what is called is not the script's
        self.main = False  # the script's first line has run
        self.outer = None  # type: Optional[FrameType]  # what the interpreter itself has called for the script
        self.events = 0
        self.kinds = {}  # type: Dict[str, int]  # by file
        self.plain = set()  # type: Set[str]  # packages' modules of which most calls are let pass
        self.files = {}  # type: Dict[str, object]  # what was found of files that were read
        self.found = {}  # type: Dict[str, object]  # what was found by asking whether something is there
        self.lists = {}  # type: Dict[str, object]  # of folders that were listed
        self.links = {}  # type: Dict[str, str]  # where paths led to
        self.searched = {}  # type: Dict[str, Set[str]]  # what imports found in folders
        self.asked = set()  # type: Set[str]  # names that were looked up there
        self.calls = {}  # type: Dict[Tuple[str, str], bool]
        self.after = []  # type: List[Callable[[], None]]  # done at the release
        self.began = sys.modules["time"].monotonic()
        self.ends = False  # end is called before the interpreter is torn down
        self.resolve = resolver()
        self.early = None  # type: Optional[bellows_early.Early]  # what is being imported early
        self.imported = None  # type: Optional[bellows_early.Early]  # what was
        self.temporary = None  # type: Optional[Tuple[List[str], str]]  # where tempfile would look for a folder, and what it was told
        self.library = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
        self.library_link = os.path.dirname(os.__file__) + os.sep
        external = sys.modules["_frozen_importlib_external"]
        self.loader = external.SourceFileLoader
        self.hot = {}  # type: Dict[str, Dict[str, Callable[[FrameType], None]]]
        self.watch_functions()

    # -- what is called ------------------------------------------------------

    def start(self) -> None:
        # Nothing is compiled into files meanwhile; who asks Python whether it would sees no difference.
        self.cache_bytecode = self.loader._cache_bytecode
        self.loader._cache_bytecode = lambda *_: None
        # The shim lets no file grow meanwhile. That must not be an error to what runs, which might go another way because of it.
        sys.modules["_signal"].signal(SIGXFSZ, sys.modules["_signal"].SIG_DFL)
        self.busy = True
        sys.addaudithook(self.audit)
        sys.setprofile(self.profiler())
        self.busy = False

    def look_back(self) -> None:
        """Look at what has run before this: .pth files may run code. If that knows of the plan's variables, the start is cold."""
        texts = []
        for folder in sys.path:
            if folder.endswith("-packages"):
                for name in sorted(n for n in entries_of(folder) if n.endswith(".pth")):
                    lines = text_of(os.path.join(folder, name)).splitlines()
                    texts.append((os.path.join(folder, name), "\n".join(line for line in lines if line.startswith(("import ", "import\t")))))
        for module in list(sys.modules.values()):
            file = bellows_early.names_in(module).get("__file__")
            if isinstance(file, str) and not file.startswith((self.library, self.library_link, self.own)) or "-packages/" in str(file):
                texts.append((str(file), text_of(str(file))))
        for path, text in texts:
            for name in self.planned:
                if name in text and any(quote + name + quote in text for quote in "'\""):
                    cold(self.fd, "%s runs before the script, and reads %s" % (path, name))
            if any(whole in text for whole in ("environ.copy(", "environ.items(", "environ.keys(", "environ.values(", "dict(os.environ", "in os.environ:")):
                cold(self.fd, "%s runs before the script, and reads the whole environment" % path)

    def watch_functions(self) -> None:
        """Note the functions whose calls are looked at for every caller."""
        environ = type(os.environ)
        one = [environ.__getitem__, environ.__setitem__, environ.__delitem__]  # type: List[Any]
        whole = [environ.__iter__, environ.__len__, environ.__repr__, getattr(environ, "copy", None), getattr(environ, "__or__", None)]
        for function in one:
            self.watch(function, self.environment)
        for function in whole:
            if hasattr(function, "__code__"):
                self.watch(function, self.whole_environment)
        asks = ["exists", "isfile", "isdir", "lexists", "islink", "ismount"]
        reads = ["getsize", "getmtime", "getatime", "getctime"]
        for name in asks:
            self.watch(getattr(os.path, name, None), self.asks)
        for name in reads:
            self.watch(getattr(os.path, name, None), self.reads)
        self.watch(os.path.realpath, self.resolves)
        self.watch(getattr(os.path, "samefile", None), self.compares)
        # Of modules that are not to be imported for this.
        paths = ("pathlib.py", "pathlib/__init__.py", "pathlib/_local.py", "pathlib/_abc.py")
        for name in ["exists", "is_file", "is_dir", "is_symlink", "is_mount", "is_block_device", "is_char_device", "is_fifo", "is_socket"]:
            self.watch_in(paths, name, self.asks)
        for name in ("stat", "lstat", "owner", "group"):
            self.watch_in(paths, name, self.reads_path)
        self.watch_in(paths, "samefile", self.compares)
        for name in ("resolve", "readlink"):
            self.watch_in(paths, name, self.resolves)
        self.watch_in(("copy.py",), "deepcopy", self.copies)
        for name in ("gettempdir", "_gettempdir"):
            self.watch_in(("tempfile.py",), name, self.asks_for_temporary)
        self.watch_in(("importlib/util.py", "<frozen importlib.util>"), "find_spec", self.searches)
        self.watch_in(("multiprocessing/synchronize.py",), "__init__", self.makes_a_semaphore)

    def watch_in(self, files: "Tuple[str, ...]", name: str, handler: "Callable[[FrameType], None]") -> None:
        for file in files:
            for library in ("",) if file.startswith("<") else (self.library, self.library_link):
                self.hot.setdefault(name, {})[library + file] = handler

    def watch(self, function: "Any", handler: "Callable[[FrameType], None]") -> None:
        code = getattr(function, "__code__", None)
        if code is not None:
            self.hot.setdefault(code.co_name, {})[code.co_filename] = handler

    def profiler(self) -> "Callable[[FrameType, str, Any], None]":
        """Return what Python's profiler calls. Most calls are of a package by a package, and are let pass with as little as possible.

        Modules are told apart by their names: to ask a frame for its code is an audit event, and takes ten times as long.
        """
        plain, watched, look = self.plain, WATCHED_C, self.look

        def profile(frame: "FrameType", event: str, arg: "Any") -> None:
            if event == "call":
                if frame.f_globals.get("__name__") in plain:
                    back = frame.f_back
                    if back is not None and back.f_globals.get("__name__") in plain:
                        return
            elif event == "c_call":
                if frame.f_globals.get("__name__") in plain and arg.__name__ not in watched:
                    return
            elif event != "return" or frame is not self.outer:
                return
            look(frame, event, arg)

        return profile

    def profiler_of_packages(self) -> "Callable[[FrameType, str, Any], None]":
        """Return what Python's profiler calls while no code of the user's own runs."""
        plain, watched, look = self.plain, WATCHED_C | PRINTS, self.look

        def profile(frame: "FrameType", event: str, arg: "Any") -> None:
            if event == "call":
                if frame.f_globals.get("__name__") not in plain:
                    look(frame, event, arg)
            elif event == "c_call" and arg.__name__ in watched:
                look(frame, event, arg)

        return profile

    def look(self, frame: "FrameType", event: str, arg: "Any") -> None:
        """Look at a call; a fault in here must not become the script's."""
        if not self.running:
            return
        self.busy = True
        try:
            if event == "call":
                self.called(frame)
            elif event == "c_call":
                self.called_c(frame, arg)
            else:
                self.park(ENDED, frame)
        except BaseException as err:
            cold(self.fd, "the process that ran it ahead: %s: %s" % (type(err).__name__, err))
        finally:
            self.busy = False

    def called(self, frame: "FrameType") -> None:
        code, back = frame.f_code, frame.f_back
        name = code.co_filename
        kind = self.kinds.get(name) or self.kind(name)
        handler = self.hot.get(code.co_name, {}).get(name)
        if handler is not None:
            handler(frame)
        if code.co_name in DEVICES and name.endswith(DEVICES[code.co_name]):
            self.park("asks for devices: %s" % code.co_name, frame)
        elif back is None:
            self.from_interpreter(frame)
        elif kind == LIBRARY:
            self.note_plain(frame)
            if name == self.own + "bellows.py" and code.co_name == "<module>":
                frame.f_globals["_ahead"] = self  # what it does at its import it does at the release
            if self.of_user(back) and not self.may_call(frame):
                self.park("calls %s of %s" % (code.co_name, frame.f_globals.get("__name__")), frame)
        elif code.co_name == "<module>":
            self.module_begins(frame)
        self.events += 1
        if self.events > MOST_EVENTS:
            self.park("has computed for long", frame)

    def note_plain(self, frame: "FrameType") -> None:
        """Note that a module is a package's, and has no function that is looked at for every caller."""
        space = frame.f_globals
        name = space.get("__name__")
        if isinstance(name, str) and name != "__main__" and name not in HOT and bellows_early.names_in(sys.modules.get(name)) is space:
            self.plain.add(name)

    def called_c(self, frame: "FrameType", function: "Any") -> None:
        name = frame.f_code.co_filename
        watched = function.__name__ in WATCHED_C and (function.__module__ or "posix") in WATCHED_IN
        if self.early is not None and function.__name__ in PRINTS:
            of = getattr(function, "__self__", None)
            if function.__name__ == "print" or of is sys.stdout or of is sys.stderr:
                self.early.give_up("it prints")  # also what stays in a buffer
        if watched and frame.f_globals.get("__name__") != "subprocess":  # what that starts was looked at
            self.park("starts a thread" if function.__module__ == "_thread" else "calls %s" % function.__name__, frame)
        elif (self.kinds.get(name) or self.kind(name)) == LIBRARY:
            return
        elif self.of_user(frame) and not self.may_call_c(function):
            self.park("calls %s" % (getattr(function, "__qualname__", None) or function.__name__), frame)

    def from_interpreter(self, frame: "FrameType") -> None:
        """Take in a call that no Python code makes: the begin of a script, or its end."""
        code = frame.f_code
        if code.co_name == "<module>":
            self.module_begins(frame)
            if self.main and self.outer is None:
                self.outer = frame
        elif code.co_name == "_run_module_as_main":
            self.outer = frame
        elif self.main and (code.co_filename[:1] != "<" or code.co_name == "_shutdown"):
            self.park(ENDED, frame)

    def module_begins(self, frame: "FrameType") -> None:
        name = frame.f_code.co_filename
        if frame.f_globals.get("__name__") == "__main__" and not self.main:
            self.main = True
            self.kinds[name] = USER  # also one that is run by -m out of an installed package
            self.stamp(name)

    def kind(self, name: str) -> int:
        if name.startswith("<frozen "):
            kind = LIBRARY
        elif name.startswith("<"):
            return GENERATED
        elif "/site-packages/" in name or "/dist-packages/" in name or name.startswith((self.library, self.library_link, self.own)):
            kind = LIBRARY
        else:
            kind = USER
        self.kinds[name] = kind
        return kind

    def of_user(self, frame: "Optional[FrameType]") -> bool:
        """Report whether code that was made of a text, as that of a data class is, was called by the user's own."""
        while frame is not None:
            kind = self.kinds.get(frame.f_code.co_filename) or self.kind(frame.f_code.co_filename)
            if kind != GENERATED:
                return kind == USER
            frame = frame.f_back
        return False

    def may_call(self, frame: "FrameType") -> bool:
        """Report whether the user's own code may call a function of a package before the plan is known."""
        code = frame.f_code
        if code.co_name == "inner" and frame.f_globals.get("__name__") == "torch._compile":  # keeps torch's compiler out of a function
            wrapped = frame.f_locals.get("fn")
            return self.known_harmless(str(getattr(wrapped, "__module__", "")), str(getattr(wrapped, "__name__", "")))
        key = (code.co_filename, code.co_name)
        may = self.calls.get(key)
        if may is None:
            may = self.calls[key] = self.vetted(frame)
        return may or self.makes_a_class(frame)

    def vetted(self, frame: "FrameType") -> bool:
        code = frame.f_code
        name = code.co_name
        if name == "<module>" or name in ("__getattr__", "__getattribute__", "__init_subclass__", "__set_name__", "__class_getitem__", "__prepare__",
                                          "__instancecheck__", "__subclasscheck__", "__mro_entries__", "__set__", "__setattr__", "__del__", "__hash__", "__eq__"):  # fmt: skip
            return True
        module = str(frame.f_globals.get("__name__"))
        top = module.partition(".")[0]
        if code.co_filename.startswith("<frozen ") or (top in PURE and code.co_filename.startswith((self.library, self.library_link))):
            return "%s.%s" % (top, name) not in IMPURE
        if code.co_filename.startswith(self.library) or code.co_filename.startswith(self.library_link):
            if "-packages/" not in code.co_filename:
                return False
        return self.known_harmless(module, name)

    def known_harmless(self, module: str, name: str) -> bool:
        while module:
            if module in VETTED:
                names = VETTED[module]
                return names is None or name in names
            module = module.rpartition(".")[0]
        return False

    def makes_a_class(self, frame: "FrameType") -> bool:
        """Report whether a call makes a class of the user's out of a package's metaclass."""
        code = frame.f_code
        if code.co_name not in ("__new__", "__init__", "__call__") or code.co_argcount == 0:
            return False
        first = frame.f_locals.get(code.co_varnames[0])
        return isinstance(first, type) and (issubclass(first, type) or code.co_name == "__init__")

    def may_call_c(self, function: "Any") -> bool:
        name, owner = function.__name__, getattr(function, "__self__", None)
        if owner is None or type(owner) is type(sys):
            module = function.__module__ or getattr(owner, "__name__", "")
            top = module.partition(".")[0]
            if top == "torch":
                return name in TORCH_C
            if top == "time":
                return name in ("mktime", "strptime", "tzset")
            return top in PURE_C and "%s.%s" % (module, name) not in IMPURE_C
        kind = owner if isinstance(owner, type) else type(owner)
        for base in kind.__mro__:
            if name in base.__dict__:
                module = str(base.__module__)
                top = module.partition(".")[0]
                if top == "torch":
                    return base.__name__ in ("Tensor", "_TensorBase", "TensorBase", "Generator", "_VariableFunctionsClass", "_VariableFunctions") and (
                        "Tensor" in base.__name__ or base.__name__ == "Generator" or name in TORCH_C
                    )
                return top in PURE_C and "%s.%s" % (base.__name__, name) not in IMPURE_C
        return False

    # -- what is read --------------------------------------------------------

    def environment(self, frame: "FrameType") -> None:
        key = frame.f_locals.get("key")
        name = os.fsdecode(key) if isinstance(key, (str, bytes)) else ""
        if self.early is not None:
            self.early.read.add(name)
        if name in self.planned:
            self.park("reads %s" % name if frame.f_code.co_name == "__getitem__" else "sets %s" % name, frame)

    def whole_environment(self, frame: "FrameType") -> None:
        reader = frame.f_back
        while reader is not None and reader.f_globals.get("__name__") in ("os", "_collections_abc", "collections.abc"):
            reader = reader.f_back
        if reader is None or reader.f_globals.get("__name__") not in OWN_VARIABLES or self.of_user(reader):
            self.park("reads the whole environment", frame)

    def copies(self, frame: "FrameType") -> None:
        if isinstance(self.first_argument(frame), type(os.environ)):
            self.park("reads the whole environment", frame)

    def asks_for_temporary(self, frame: "FrameType") -> None:
        """Tell tempfile the folder that it would find by writing a file into it; the file is written before the release."""
        space = frame.f_globals
        if space.get("tempdir", "") is None and space.get("__name__") == "tempfile":
            folders = [os.path.abspath(f) if f != os.curdir else f for f in space["_candidate_tempdir_list"]()]
            found = next((f for f in folders if os.path.isdir(f) and os.access(f, os.W_OK | os.X_OK)), None)
            if self.early is not None:
                self.early.read.update(("TMPDIR", "TEMP", "TMP"))
            if found is not None and "path " + found not in self.before:
                self.temporary = (folders, found)
                space["tempdir"] = found

    def makes_a_semaphore(self, frame: "FrameType") -> None:
        self.park("makes a semaphore", frame)

    def searches(self, frame: "FrameType") -> None:
        name = self.first_argument(frame)
        if isinstance(name, str):
            self.asked.update(name.split("."))

    def first_argument(self, frame: "FrameType") -> "Any":
        code = frame.f_code
        return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None

    def asks(self, frame: "FrameType") -> None:
        path = self.path_of(self.first_argument(frame))
        if path in ["/proc/%d/%s" % (os.getpid(), name) for name in ("smaps", "smaps_rollup", "io")] and not self.user_context(frame):
            return  # whether the kernel has such a file at all, which psutil asks
        if path and not self.special(path, frame):
            self.note(self.found, path, there(path), frame)

    def reads(self, frame: "FrameType") -> None:
        path = self.path_of(self.first_argument(frame))
        if path and not self.special(path, frame):
            self.note(self.files, path, stamp(path), frame)

    def reads_path(self, frame: "FrameType") -> None:
        if frame.f_back is None or frame.f_back.f_code.co_filename != frame.f_code.co_filename:  # else pathlib's own, which only asks
            self.reads(frame)

    def compares(self, frame: "FrameType") -> None:
        if self.user_context(frame):
            self.park("compares files", frame)

    def resolves(self, frame: "FrameType") -> None:
        path = self.path_of(self.first_argument(frame))
        if path and not self.special(path, frame):
            self.note(self.links, path, self.resolve(path), frame)

    def path_of(self, path: "Any") -> str:
        """Return an absolute path; empty for a descriptor."""
        try:
            return os.path.join(os.getcwd(), os.fsdecode(path))
        except (TypeError, OSError, ValueError):
            return ""

    def special(self, path: str, frame: "Optional[FrameType]") -> bool:
        """Report whether a path is one of the kernel's own; park who may not read it."""
        if not path.startswith(("/proc/", "/sys/", "/dev/")) or path.startswith("/dev/shm/"):
            return False
        if path in ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero") or path.startswith(("/proc/cpuinfo", "/sys/devices/system/cpu", "/proc/meminfo")):
            return True
        mine = ("/proc/self/", "/proc/%d/" % os.getpid())
        if path.startswith("/dev/") or self.user_context(frame) or (path.startswith(mine) and not path.endswith(("/maps", "/exe", "/mountinfo", "/mounts", "/ns/pid"))):
            self.park("reads %s" % path, frame)
        return True

    def user_context(self, frame: "Optional[FrameType]") -> bool:
        """Report whether the user's own code runs, and not the import of a package."""
        while frame is not None:
            kind = self.kinds.get(frame.f_code.co_filename) or self.kind(frame.f_code.co_filename)
            if kind == USER:
                return True
            if kind == LIBRARY and frame.f_code.co_name == "<module>":
                return False
            frame = frame.f_back
        return False

    def note(self, where: "Dict[str, Any]", path: str, now: object, frame: "Optional[FrameType]") -> None:
        if "path " + path in self.before:
            if self.running and frame is not None and frame.f_code.co_filename == "<frozen importlib._bootstrap_external>":
                where.setdefault(path, now)  # the import has looked at it already, and goes on with what it saw
            self.park("looks at %s, which was seen to change" % path, frame)
        if self.running and path not in where:
            where[path] = now
            if len(where) > MOST_STAMPS:
                self.park("has read %d files" % len(where), frame)

    def stamp(self, path: str) -> None:
        path = self.path_of(path)
        if path:
            self.note(self.files, path, stamp(path), sys._getframe(1))

    def audit(self, event: str, args: "Any") -> None:
        """Take an audit event in: what is about to happen."""
        if not self.running or self.busy:
            return
        self.busy = True
        try:
            self.happens(event, args)
        except BaseException as err:
            cold(self.fd, "the process that ran it ahead: %s: %s" % (type(err).__name__, err))
        finally:
            self.busy = False

    def happens(self, event: str, args: "Any") -> None:
        frame = sys._getframe(1).f_back  # None: the interpreter itself does it
        if event == "open":
            self.opens(args, frame)
        elif event == "import":
            self.imports(args, frame)
        elif event in ("os.listdir", "os.scandir"):
            self.lists_folder(args[0], frame)
        elif event == "os.mkdir":
            path = self.path_of(args[0])
            if os.path.lexists(path):  # then it fails
                self.note(self.found, path, there(path), frame)
            else:
                self.park("makes the folder %s" % path, frame)
        elif event in ("os.putenv", "os.unsetenv"):
            if os.fsdecode(args[0]) in self.planned:
                self.park("sets %s" % os.fsdecode(args[0]), frame)
        elif event == "socket.bind":
            if not (isinstance(args[1], tuple) and args[1][:1] and args[1][0] in ("::1", "127.0.0.1", "localhost") and args[1][1] == 0):
                self.park("opens a port", frame)
        elif event == "sqlite3.connect":
            if args[0] != ":memory:":
                self.park("opens a database", frame)
        elif event == "ctypes.dlopen":
            name = str(args[0] or "")
            if os.path.basename(name).startswith(ACCELERATORS):
                self.park("loads %s, which asks for devices" % name, frame)
            elif self.of_user(frame):
                self.park("loads %s" % name, frame)
            elif os.path.isabs(name):
                self.note(self.files, name, stamp(name), frame)
        elif event == "subprocess.Popen" and list(args[1] or ()) in READERS and not self.of_user(frame):
            self.readers = True
            self.note(self.files, "/etc/ld.so.cache", stamp("/etc/ld.so.cache"), frame)
        elif event == "time.sleep":
            if self.user_context(frame):
                self.park("waits", frame)
        elif event in EFFECTS:
            what = next((a for a in args if isinstance(a, (str, bytes))), "") if event.startswith(("subprocess.", "os.", "socket.")) else ""
            self.park("%s (%s)" % (EFFECTS[event], os.fsdecode(what)[:200]) if what else EFFECTS[event], frame)

    def opens(self, args: "Any", frame: "Optional[FrameType]") -> None:
        path, mode, flags = args
        if not isinstance(path, (str, bytes)) and not hasattr(path, "__fspath__"):
            return  # a descriptor, which was opened before
        path = self.path_of(path)
        writes = isinstance(flags, int) and (flags & os.O_ACCMODE if hasattr(os, "O_ACCMODE") else flags & 3) != os.O_RDONLY
        if writes or (isinstance(flags, int) and flags & (os.O_CREAT | os.O_TRUNC)):
            if path != "/dev/null":
                self.park("opens %s for writing" % path, frame)
            return
        if self.special(path, frame):
            return
        if path.endswith(".pyc"):
            folder, name = os.path.split(path)
            source = os.path.join(os.path.dirname(folder), name.partition(".")[0] + ".py") if os.path.basename(folder) == "__pycache__" else path
            path = source if os.path.lexists(source) else path
        self.note(self.files, path, stamp(path), frame)

    def imports(self, args: "Any", frame: "Optional[FrameType]") -> None:
        name, file = args[0], args[1]
        if isinstance(file, str):
            self.note(self.files, self.path_of(file), stamp(self.path_of(file)), frame)
            return
        self.asked.add(str(name).rpartition(".")[2])
        if any(("%s." % name).startswith(what[len("import ") :] + ".") for what in self.before if what.startswith("import ")):
            self.park("imports %s" % name, frame)
        elif self.of_user(frame):
            send(self.fd, "at", str(name))

    def lists_folder(self, path: "Any", frame: "Optional[FrameType]") -> None:
        if isinstance(path, int):
            self.park("lists a folder", frame)
            return
        path = self.path_of("." if path is None else path)
        if frame is not None and frame.f_code.co_filename == "<frozen importlib._bootstrap_external>":
            if path not in self.searched:
                self.searched[path] = entries(path)
        elif not self.special(path, frame):
            self.note(self.lists, path, listed(path), frame)

    # -- parked --------------------------------------------------------------

    def park(self, why: str, frame: "Optional[FrameType]") -> None:
        """Wait for the plan, here; return when the script may go on, or never."""
        if not self.running:
            return
        if self.early is not None:
            self.early.give_up(why)
        if why != ENDED:
            self.import_early()
        self.running = False
        self.outer = None
        try:
            sys.setprofile(None)
        except RuntimeError:
            pass  # the script is setting its own, which takes this one's place
        self.loader._cache_bytecode = self.cache_bytecode
        fault = outside()
        if fault:
            cold(self.fd, fault)
        signals = sys.modules["_signal"]  # type: Any
        if signals.getsignal(SIGXFSZ) == signals.SIG_DFL:  # else the script has set a handler of its own
            signals.signal(SIGXFSZ, signals.SIG_IGN)
        send(self.fd, "parked", self.where(frame), why, "meets" if any(name in sys.modules for name in MEETING) else "-", "readers" if self.readers else "-")
        self.folder = os.getcwd()
        plan = receive(self.fd)
        for changed, before in self.changes():
            cold(self.fd, changed, before)
        self.take_in(plan)
        send(self.fd, "ok")
        receive(self.fd)
        os.close(self.fd)
        logging = sys.modules.get("logging")
        if logging is not None:  # what its records count from: no worker imports it before its generation
            now = now_ns()
            logging._startTime = now if isinstance(logging._startTime, int) else now / 1e9  # type: ignore[attr-defined]
        for step in self.after:
            step()
        del self.after[:]

    def import_early(self) -> None:
        """Import what a framework imports late: nothing else is to be done until the plan is there."""
        name = bellows_early.applies(self)
        if name is None:
            return
        self.early, self.events = bellows_early.Early(self, name), 0
        sys.setprofile(self.profiler_of_packages())
        try:
            self.early.make()
        except BaseException as err:
            self.early.give_up("%s: %s" % (type(err).__name__, err))
        self.early, self.imported = None, self.early

    def end(self) -> None:
        """Leave what the interpreter can tear down: the script has ended."""
        if self.imported is not None:
            self.imported.end()

    def tell(self, *fields: str) -> None:
        send(self.fd, *fields)

    def cold(self, why: str, before: str = "") -> "NoReturn":
        cold(self.fd, why, before)

    def is_user_module(self, module: "Any") -> bool:
        space = bellows_early.names_in(module)
        file = space.get("__file__")
        if isinstance(file, str):
            return (self.kinds.get(file) or self.kind(file)) == USER
        return bool(space.get("__name__") == "__main__")

    def looked(self) -> "List[Tuple[str, str, object]]":
        """Return what was found of each path, and how it was looked at."""
        return [(how, path, was) for how in LOOKS for path, was in getattr(self, how).items()]

    def look_again(self, how: str, path: str) -> object:
        return LOOKS[how](path)

    def new_modules(self) -> str:
        """Return a folder in which there is a module now, or none any more, that imports have looked for; empty if there is none."""
        return next((path for path, was in self.searched.items() if (entries(path) ^ was) & self.asked), "")

    def take_in(self, plan: "List[str]") -> None:
        """Add the plan's variables to the environment, in the place that they have in a process that is executed with them.

        No string of it stays where the kernel has put it, for the shim to write there what the kernel shows of it.
        """
        first = [k + "=" + v for k, v in self.environ.items()]
        own = [e for e in first if e.startswith("LC_CTYPE=")]  # which the interpreter may have added
        given = [e for e in first if e not in own] if first[-len(own) :] == own else first
        in_order = sorted(given + plan) + own if given == sorted(given) else first + plan
        values = dict(os.environ)
        for name, _, value in (entry.partition("=") for entry in plan):
            values[name] = value
        names = [n for n in (entry.partition("=")[0] for entry in in_order) if n in values]
        names += [n for n in values if n not in set(names)]
        for name in list(os.environ):
            del os.environ[name]
        for name in names:
            os.environ[name] = values[name]

    def where(self, frame: "Optional[FrameType]") -> str:
        """Return the line of the user's own code that is being run."""
        while frame is not None:
            name = frame.f_code.co_filename
            if (self.kinds.get(name) or self.kind(name)) == USER:
                here = os.getcwd() + os.sep
                return "%s:%d" % (name[len(here) :] if name.startswith(here) else name, frame.f_lineno or 0)
            frame = frame.f_back
        return "its begin" if not self.main else "its end"

    def changes(self) -> "Any":
        """Yield what has changed since it was read, and what to park before because of that."""
        # A module that may change is parked for before Python looks for it: it looks at the file before it reads it.
        modules = {getattr(bellows_early.names_in(m).get("__spec__"), "origin", None): "import " + name for name, m in list(sys.modules.items())}
        for where, now in ((self.files, stamp), (self.found, there), (self.lists, listed), (self.links, resolver())):
            for path, was in where.items():
                if now(path) != was:
                    yield "%s has changed since it was read" % path, modules.get(path) or "path " + path
        for path, was in self.searched.items():
            for name in entries(path) ^ was:
                if name in self.asked:
                    yield "%s in %s is new, or gone, since imports looked for it" % (name, path), ""
        try:
            here, there_now = os.stat("."), os.stat(self.folder)
            moved = (here.st_dev, here.st_ino) != (there_now.st_dev, there_now.st_ino)
        except OSError:
            moved = True
        if moved:
            yield "%s is another folder now" % self.folder, ""
        if self.temporary is not None and first_writable(self.temporary[0]) != self.temporary[1]:
            yield "%s is not where temporary files go" % self.temporary[1], "path " + self.temporary[1]
        fault = outside()
        if fault:
            yield fault, ""


def stamp(path: str) -> object:
    """Return what tells one content of a file from another; the error's number if there is none."""
    try:
        s = os.stat(path)
    except (OSError, ValueError) as err:
        return getattr(err, "errno", 0)
    if s.st_mode & 0o170000 == 0o040000:
        return (s.st_dev, s.st_ino, s.st_mode)
    return (s.st_dev, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


def there(path: str) -> object:
    """Return of what kind a path is."""
    kinds = []
    for ask in (os.stat, os.lstat):
        try:
            kinds.append(ask(path).st_mode & 0o170000)
        except (OSError, ValueError) as err:
            kinds.append(-(getattr(err, "errno", 0) or 0))
    return kinds


def resolver() -> "Callable[[str], str]":
    """Return os.path.realpath for many paths of the same folders. It looks at each folder once."""
    folders = {}  # type: Dict[str, str]

    def resolve(path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        whole = os.path.join(folders[folder], name)
        try:
            link = os.lstat(whole).st_mode & 0o170000 == 0o120000
        except OSError:
            link = False
        return os.path.realpath(whole) if link else whole

    return resolve


def entries(path: str) -> "Set[str]":
    """Return the names of modules that a folder may have."""
    try:
        return {name.partition(".")[0] for name in os.listdir(path)}
    except OSError:
        return set()


def entries_of(path: str) -> "List[str]":
    try:
        return os.listdir(path)
    except OSError:
        return []


def text_of(path: str) -> str:
    try:
        with open(path, "rb") as f:
            return f.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""


def first_writable(folders: "List[str]") -> str:
    """Return the folder that tempfile would choose, in the same way. This process may let no file grow yet, but for these."""
    external, own = sys.modules["_frozen_importlib_external"], os.path.join(os.path.dirname(os.__file__), "lib-dynload")
    # Not imported: the script may have a module of that name.
    spec = sys.modules["_frozen_importlib"].BuiltinImporter.find_spec("resource") or external.PathFinder.find_spec("resource", [own])
    if spec is None:
        return ""
    resource = sys.modules["_frozen_importlib"].module_from_spec(spec)
    spec.loader.exec_module(resource)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
    try:
        return next((folder for folder in folders if written(folder)), "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def written(folder: str) -> bool:
    """Report whether a file can be made in a folder, written and removed."""
    path = os.path.join(folder, "tmp" + os.urandom(8).hex())
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                os.write(fd, b"blat")
            finally:
                os.close(fd)
        finally:
            os.unlink(path)
    except OSError:
        return False
    return True


def listed(path: str) -> object:
    try:
        with os.scandir(path) as all:
            return sorted((e.name, e.is_dir()) for e in all)
    except OSError as err:
        return err.errno


LOOKS = {"files": stamp, "found": there, "lists": listed, "links": os.path.realpath}  # type: Dict[str, Callable[[str], object]]


def now_ns() -> int:
    return sys.modules["time"].time_ns()  # type: ignore[no-any-return] # the interpreter has imported it


def outside() -> str:
    """Return what of the process reaches outside, by any code; empty if nothing does."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return "what it imports has started a process"
    except ChildProcessError:
        pass
    for name in os.listdir("/proc/self/fd"):
        if int(name) <= 2:
            continue
        try:
            path = os.readlink("/proc/self/fd/" + name)
            if not path.startswith("/") or path.endswith(" (deleted)"):
                continue
            if path.startswith("/dev/") and path not in ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero"):
                return "what it imports keeps %s open" % path
            with open("/proc/self/fdinfo/" + name) as f:
                flags = [line.split()[1] for line in f if line.startswith("flags:")]
            if int(flags[0], 8) & 3 != os.O_RDONLY and path != "/dev/null":
                return "what it imports keeps %s open for writing" % path
        except OSError:
            pass  # that of the listing itself
    with open("/proc/self/maps", "rb") as f:
        for line in f.read().splitlines():
            base = os.fsdecode(line.rpartition(b"/")[2])
            if base.startswith(("libcuda.so", "libnvidia-ml.so")):
                return "what it imports loads %s, which asks for devices" % base
    return ""
