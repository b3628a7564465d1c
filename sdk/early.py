"""What imports early, while a script is parked, the modules that its framework imports late.

From version 2.1 on PyTorch imports its compiler when the first optimizer or DistributedDataParallel is made. These are
900 modules, and take longer than everything else between the release of a parked process and its first step. So a parked
process imports them, and then hides them: it takes them out of sys.modules and takes back what they changed elsewhere,
so that the script finds the process as it was. When the script asks for one of them, the process compares
what the import depended on with what is there now. If nothing differs, it puts everything back, and the script goes on
as if it had imported the modules then. Otherwise the worker ends; the next one starts cold, and no
later one imports early.

An import may do this only if its effects can be seen and taken back. If it reads a variable of the plan, writes, prints, starts
a thread or draws a random number, the process is given up before its release (see ahead.py).

What is taken back and put back: names in modules and in classes, environment variables, warning filters, loggers and exit
handlers. What the modules register inside of other objects of their framework, such as tables of operators, stays there: it is
only added to, and only the modules themselves look at it. That was checked for the modules in LATE, and for no others.

Some of the modules that the import brought along may be asked for first. Those of the standard library and of numpy are put
back together then: they depend on nothing that a script sets. If another one is asked for, such as a part of PyTorch, everything
is compared, and all but the module in LATE are put back; when that is asked for, everything is compared again.
"""

import os
import sys

MYPY = False
if MYPY:
    from typing import Any, Dict, List, NoReturn, Optional, Sequence, Set, Tuple

    from ahead import Ahead

# What is imported late, and the module that does so: without it there is nothing to gain.
LATE = {"torch._dynamo": "torch._compile"}
# The exit status of a worker that cannot use what it imported early. agent/shim knows it.
STATUS = 87
# What a child of the worker that cannot use them ends the worker with: the last of the real-time signals.
SIGNAL = 64
# What the shim notes where nothing can be imported early, and tells the next process.
LESSON = "early"
# A process gets too little of the processors if it lives for so many times its processor time, and for so many seconds more.
SHORT = 3
SHORT_S = 3
MISSING = object()
# Names of modules and of classes that are replaced before training, and that no import keeps: by scripts of several ranks, by
# torch.distributed, by the first optimizer of a class, and here and in ahead.py.
MAY_CHANGE = {
    "builtins": ["print"], "sys": ["excepthook", "unraisablehook", "displayhook"], "threading": ["excepthook"],
    "_frozen_importlib": ["_find_and_load"], "importlib._bootstrap": ["_find_and_load"], "_frozen_importlib_external": ["_cache_bytecode"],
    "importlib._bootstrap_external": ["_cache_bytecode"],
}  # fmt: skip


class Early:
    """The modules that a parked process has imported early."""

    def __init__(self, ahead: "Ahead", name: str) -> None:
        self.ahead, self.name = ahead, name
        self.read = set()  # type: Set[str]  # environment variables that the import read
        self.exits = []  # type: List[Tuple[Any, Any, Any]]  # exit handlers that it registered
        self.hidden = {}  # type: Dict[str, Any]  # the modules, in the order of sys.modules
        self.changes = []  # type: List[Tuple[Any, Any, str, Any, Any]]  # how to set, where, name, before, after
        self.variables = {}  # type: Dict[str, Tuple[Any, Any]]  # environment variables before and after
        self.filters = []  # type: List[Any]  # warning filters that it put in front
        self.guards = []  # type: List[Tuple[Any, Tuple[str, ...], Tuple[Any, ...]]]  # names of functions and classes, and what they were
        self.looked = []  # type: List[Tuple[Any, str, object]]  # how it was looked, at what, and what was found
        self.loggers = {}  # type: Dict[str, Tuple[Any, Any]]  # names of loggers before and after
        self.asks = None  # type: Any  # what the interpreter calls instead of self.find
        self.pid = os.getpid()
        self.lock = sys.modules["_thread"].RLock()

    # -- before the release --------------------------------------------------

    def make(self) -> None:
        """Import the modules and hide them; the process ends if that is not possible."""
        self.ahead.tell("early")
        modules, classes = names_of_modules(), names_of_classes()
        known, loggers = dict(sys.modules), names_of_loggers()
        self.before = State()
        looked = {(how, path) for how, path, _ in self.ahead.looked()}
        exits = sys.modules["atexit"]  # type: Any
        register, count = exits.register, exits._ncallbacks()
        exits.register = stand_in = self.at_exit
        try:
            # This is called by the profiler or an audit hook, inside of which Python observes nothing otherwise.
            sys.call_tracing(self.imports, ())
        except BaseException as err:
            self.give_up("%s: %s" % (type(err).__name__, err))
        finally:
            exits.register = register
        if exits._ncallbacks() != count:
            self.give_up("it registers exit handlers in C")
        now = State()
        for what, value in now.fixed.items():
            if value != self.before.fixed[what] and self.before.fixed[what] is not MISSING:
                self.give_up("it changes %s" % what)
        self.looked = [(how, path, was) for how, path, was in self.ahead.looked() if (how, path) not in looked]
        for name, was, has in differences(loggers, names_of_loggers()):
            self.loggers[name] = (was, has)
        self.hide(known, modules, classes, now, stand_in, register)
        self.guard(modules, classes)
        self.wait_for_it()
        if written() != self.before.fixed["the output"]:
            self.give_up("it prints")

    def imports(self) -> None:
        self.ahead.busy = False
        try:
            __import__(self.name)
        finally:
            self.ahead.busy = True

    def at_exit(self, function: "Any", *args: "Any", **named: "Any") -> "Any":
        self.exits.append((function, args, named))
        return function

    def give_up(self, why: str) -> "NoReturn":
        self.ahead.cold("importing %s early: %s" % (self.name, why), LESSON)

    def hide(self, known: "Dict[str, Any]", modules: "Any", classes: "Any", now: "State", stand_in: "Any", register: "Any") -> None:
        """Take back what the import has changed, and note how it is put back."""
        self.hidden = {name: module for name, module in sys.modules.items() if name not in known}
        if any(sys.modules.get(name, MISSING) is not module for name, module in known.items()):
            self.give_up("it replaces a module")
        for module in self.hidden.values():  # what has kept the stand-in's name gets the function itself
            space = names_in(module)
            for name in [n for n, v in space.items() if v is stand_in]:
                space[name] = register
        for name, module, old in modules:
            for key, was, has in differences(old, names_in(module)):
                if self.ahead.is_user_module(module):
                    self.give_up("it changes %s of %s" % (key, name))
                self.changes.append((set_in_module, module, key, was, has))
        for kind, old in classes:
            for key, was, has in differences(old, type.__getattribute__(kind, "__dict__")):
                self.changes.append((set_in_class, kind, key, was, has))
        for key, was, has in differences(self.before.environ, now.environ):
            self.variables[key] = (was, has)
        added = len(now.filters) - len(self.before.filters)
        if added < 0 or now.filters[added:] != self.before.filters:
            self.give_up("it changes the warning filters")
        self.filters = now.filters[:added]
        try:
            for put, owner, key, was, _ in self.changes:
                put(owner, key, was)
        except (TypeError, AttributeError) as err:
            self.give_up(str(err))
        for key, (was, _) in self.variables.items():
            set_variable(key, was)
        if added:
            del warnings().filters[:added]
            warnings()._filters_mutated()
        for name, (was, _) in self.loggers.items():
            set_logger(name, was)
        for name in self.hidden:
            del sys.modules[name]

    def guard(self, modules: "Any", classes: "Any") -> None:
        """Note the functions and classes of packages: the import may have kept them, so they must not be replaced before it is asked for."""
        functions = {type(guarded), type(len), staticmethod, classmethod, property}
        kinds = functions | {kind for kind in {type(v) for _, _, old in modules for v in old.values()} if issubclass(kind, type)}
        tops = self.packages()
        for name, module, old in modules:
            if name.partition(".")[0] in tops and not self.ahead.is_user_module(module):
                keys = tuple(k for k, v in old.items() if type(v) in kinds and k not in may_change(name))
                self.guards.append((names_in(module), keys, tuple(old[k] for k in keys)))
        for kind, old in classes:
            module = sys.modules.get(str(type.__getattribute__(kind, "__module__")))
            name = str(names_in(module).get("__name__"))
            if name.partition(".")[0] in tops and not self.ahead.is_user_module(module):
                may = may_change(name)
                keys = tuple(k for k, v in old.items() if type(v) in functions and k not in may)
                self.guards.append((type.__getattribute__(kind, "__dict__"), keys, tuple(old[k] for k in keys)))

    def packages(self) -> "Set[str]":
        """Return the names of the packages of which a hidden module may have kept something."""
        out = {name.partition(".")[0] for name in self.hidden}
        for module in self.hidden.values():
            for value in list(names_in(module).values()):
                name = value.__name__ if type(value) is type(sys) else getattr(value, "__module__", None) if type(value) in (type(guarded), type) else None
                if isinstance(name, str):
                    out.add(name.partition(".")[0])
        return out

    def wait_for_it(self) -> None:
        """Have the interpreter ask, before it looks for a module, whether that is a hidden one.

        Every import calls this function by its name in this module. The stand-in's file name is the original's, so that Python
        leaves it out of the tracebacks of failed imports, too.
        """
        bootstrap = sys.modules["_frozen_importlib"]
        self.find = bootstrap.__dict__["_find_and_load"]
        source = (
            "def made(hidden, show, find):\n"
            "    def _find_and_load(name, import_):\n        if name in hidden:\n            show(name)\n        return find(name, import_)\n"
            "    return _find_and_load\n"
        )
        space = {}  # type: Dict[str, Any]
        eval(compile(source, "<frozen importlib._bootstrap>", "exec"), space)
        made = space["made"](self.hidden, self.show, self.find)
        self.asks = type(made)(made.__code__, bootstrap.__dict__, "_find_and_load", None, made.__closure__)
        bootstrap.__dict__["_find_and_load"] = self.asks

    # -- after the release ---------------------------------------------------

    def show(self, name: str) -> None:
        """Put everything back, because the script asks for one of the modules; the worker ends if they may not be what it would get."""
        try:
            with self.lock:  # another thread may ask at the same time
                if name not in self.hidden:
                    return
                if self.plain(name):
                    fault = self.put_back([n for n in self.hidden if self.plain(n)])
                elif not self.late(name):
                    fault = self.differs() or self.put_back([n for n in self.hidden if not self.late(n)])
                    self.put_filters_back()
                else:
                    fault = self.differs() or self.put_back(list(self.hidden)) or self.put_back_the_rest()
        except BaseException as err:
            fault = "%s: %s" % (type(err).__name__, err)
        if fault:
            text = "bellows: %s was imported before the worker was released, and what it depends on has changed since: %s; the job starts again, cold\n" % (self.name, fault)
            os.write(2, text.encode("utf-8", "replace"))
            if os.getpid() != self.pid:
                os.kill(self.pid, SIGNAL)
            os._exit(STATUS)

    def late(self, name: str) -> bool:
        return name == self.name or name.startswith(self.name + ".")

    def plain(self, name: str) -> bool:
        """Report whether a hidden module is of the standard library or of numpy."""
        top, file = name.partition(".")[0], names_in(self.hidden[name]).get("__file__")
        if top == "numpy" or top.startswith("_cython_") or top in sys.builtin_module_names:
            return True
        return isinstance(file, str) and file.startswith((self.ahead.library, self.ahead.library_link)) and "-packages/" not in file

    def put_back(self, names: "List[str]") -> str:
        """Put hidden modules back, as names of sys.modules and of the packages that they are in."""
        for name in names:
            if name in sys.modules:
                return "sys.modules[%r]" % name
        modules = [self.hidden[name] for name in names]
        for name in names:  # in this order: another thread that asks meanwhile finds it in one of them
            sys.modules[name] = self.hidden[name]
            del self.hidden[name]
        shown, self.changes = self.changes, []
        for change in shown:
            put, owner, key, _, has = change
            if type(has) is type(sys) and any(has is module for module in modules):
                put(owner, key, has)
            else:
                self.changes.append(change)
        return ""

    def put_back_the_rest(self) -> str:
        self.stop_waiting()
        for put, owner, key, _, has in self.changes:
            put(owner, key, has)
        for key, (_, value) in self.variables.items():
            set_variable(key, value)
        self.put_filters_back()
        for name, (was, has) in self.loggers.items():
            if names_of_loggers().get(name, MISSING) is was:
                set_logger(name, has)
        put_loggers_in_order([has for _, has in self.loggers.values()])
        for function, args, named in self.exits:
            sys.modules["atexit"].register(function, *args, **named)
        self.forget()
        return ""

    def put_filters_back(self) -> None:
        if self.filters:
            warnings().filters[:0] = self.filters
            warnings()._filters_mutated()
            self.before.filters, self.filters = self.filters + self.before.filters, []

    def end(self) -> None:
        """Have the interpreter tear the modules down as any others, if nothing has asked for them."""
        if self.hidden:
            self.stop_waiting()
            for name, module in self.hidden.items():
                sys.modules.setdefault(name, module)
            self.forget()

    def stop_waiting(self) -> None:
        space = sys.modules["_frozen_importlib"].__dict__
        if space["_find_and_load"] is self.asks:  # else the script has put its own in front
            space["_find_and_load"] = self.find

    def forget(self) -> None:
        self.hidden.clear()
        self.guards, self.changes, self.looked, self.exits = [], [], [], []
        self.loggers.clear()

    def differs(self) -> str:
        """Return what the import depended on and is another now; empty if there is nothing."""
        before, now = self.before, State(False)
        for key in self.read:
            # The import may set a variable itself, and then so does what the script has called of the framework.
            if now.environ.get(key) not in (before.environ.get(key), self.variables.get(key, (None, MISSING))[1]):
                return key
        kept = [p for p in now.path if p in before.path]
        if kept != before.path or any(self.ahead.asked & found_in(p) for p in now.path if p not in before.path):
            return "sys.path"
        if now.folder != before.folder and not all(map(os.path.isabs, now.path)):
            return "the working directory"
        # Nothing was printed with the filters of then: with more that ignore nothing is, either.
        more = len(now.filters) - len(before.filters)
        if more < 0 or now.filters[more:] != before.filters or any(f[0] != "ignore" for f in now.filters[:more]):
            return "the warning filters"
        for what, value in now.fixed.items():
            if value != before.fixed[what]:
                return what
        for space, keys, values in self.guards:
            if not all(map(guarded, map(space.get, keys), values)):
                return "%s of %s" % (next(k for k, v in zip(keys, values) if space.get(k) is not v), space.get("__name__") or space.get("__module__"))
        if before.temporary not in (None, now.temporary):
            return "where temporary files go"
        for _, owner, key, was, has in self.changes:
            value = owner.__dict__.get(key, MISSING)
            if value is not was and not (isinstance(value, (bool, int, str)) and any(type(v) is type(value) and v == value for v in (was, has))):
                return "%s of %s" % (key, owner.__name__)
        names = names_of_loggers()
        for key, (was, has) in self.loggers.items():
            # A name that only stands for the loggers below it may have become a logger.
            if names.get(key, MISSING) is not was and type(has).__name__ != "PlaceHolder":
                return "the logger %s" % key
        for how, path, was in self.looked:
            if self.ahead.look_again(how, path) != was:
                return path
        return self.ahead.new_modules()


class State:
    """What an import may depend on or change, besides names in modules and in classes."""

    def __init__(self, whole: bool = True) -> None:
        self.environ = dict(os.environ)
        self.filters = list(warnings().filters)
        self.path = list(sys.path)
        self.temporary = getattr(sys.modules.get("tempfile"), "tempdir", None)
        try:
            self.folder = os.getcwd()
        except OSError:
            self.folder = ""
        torch = sys.modules["torch"]  # type: Any
        self.fixed = {
            "sys.meta_path": list(sys.meta_path),
            "sys.path_hooks": list(sys.path_hooks),
            "the default type of numbers": torch.get_default_dtype(),
            "the default device": id(getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)),
            "the processors": os.sched_getaffinity(0),
        }  # type: Dict[str, object]
        if not whole:
            return
        # What the import must leave as it is, and what it does not depend on.
        signals = sys.modules["_signal"]  # type: Any
        self.fixed.update({
            "sys.path": self.path,
            "the working directory": self.folder,
            "signal handlers": [signals.getsignal(n) for n in range(1, signals.NSIG) if n not in (32, 33)],
            "the state of random": state_of("random", "getstate"),
            "the state of torch's generator": torch.random.get_rng_state().tolist(),
            "the state of numpy's generator": comparable(state_of("numpy.random.mtrand", "get_state")),
            "the collector of garbage": (collector().isenabled(), collector().get_threshold()),
            "the interpreter's limits": (sys.getrecursionlimit(), sys.getswitchinterval()),
            "what threads do at the exit": list(getattr(sys.modules.get("threading"), "_threading_atexits", [])),
            "the output": written(),
        })  # fmt: skip


def applies(ahead: "Ahead") -> "Optional[str]":
    """Return the name of what a parked process may import early; None if there is nothing."""
    if LESSON in ahead.before or not ahead.ends or not {"atexit", "warnings"} <= set(sys.modules) or written() < 0:
        return None
    # Where processors are short it would hold up the rescale, or not be done in time.
    time = sys.modules["time"]  # type: Any
    if time.monotonic() - ahead.began > SHORT * time.process_time() + SHORT_S:
        return None
    for name, by in LATE.items():
        # Inside of a package's import this one could meet modules that are half done.
        if by in sys.modules and name not in sys.modules and not any(initializing(m) and not ahead.is_user_module(m) for m in list(sys.modules.values())):
            return name
    return None


def initializing(module: "Any") -> bool:
    return bool(getattr(names_in(module).get("__spec__"), "_initializing", False))


def state_of(module: str, function: str) -> "Any":
    return getattr(sys.modules.get(module), function, lambda: MISSING)()


def comparable(state: "Any") -> object:
    return state if state is MISSING else [part.tobytes() if hasattr(part, "tobytes") else part for part in state]


def may_change(module: str) -> "Sequence[str]":
    return ["step"] if module.startswith("torch.optim.") else MAY_CHANGE.get(module, ())


def guarded(now: object, was: object) -> bool:
    return now is was


def warnings() -> "Any":
    return sys.modules["warnings"]


def collector() -> "Any":
    """Return the module gc, and leave sys.modules as it is."""
    known = sys.modules.get("gc")
    if known is None:
        spec = sys.modules["_frozen_importlib"].BuiltinImporter.find_spec("gc")
        known = sys.modules["_frozen_importlib"].module_from_spec(spec)
        spec.loader.exec_module(known)
        sys.modules.pop("gc", None)  # where Python has put it there
    return known


def names_in(module: "Any") -> "Dict[str, Any]":
    """Return a module's names as they are: a module that is loaded when it is first used would be loaded if it were asked."""
    try:
        return object.__getattribute__(module, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return {}


def names_of_modules() -> "List[Tuple[str, Any, Dict[str, Any]]]":
    """Return the modules that are loaded, each with its names."""
    kind = type(sys)
    return [(name, module, dict(names_in(module))) for name, module in list(sys.modules.items()) if isinstance(module, kind)]


def names_of_classes() -> "List[Tuple[type, Dict[str, Any]]]":
    objects = collector().get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, type)}
    return [(thing, dict(type.__getattribute__(thing, "__dict__"))) for thing in objects if type(thing) in kinds]


def differences(old: "Dict[str, Any]", new: "Any") -> "List[Tuple[str, Any, Any]]":
    if len(old) == len(new) and all(map(guarded, map(new.get, old), old.values())):
        return []
    names = list(old) + [name for name in new if name not in old]
    return [(n, old.get(n, MISSING), new.get(n, MISSING)) for n in names if old.get(n, MISSING) is not new.get(n, MISSING)]


def set_in_module(module: "Any", name: str, value: "Any") -> None:
    if value is MISSING:
        names_in(module).pop(name, None)
    else:
        names_in(module)[name] = value


def set_in_class(kind: type, name: str, value: "Any") -> None:
    if value is not MISSING:
        type.__setattr__(kind, name, value)
    elif name in type.__getattribute__(kind, "__dict__"):
        type.__delattr__(kind, name)


def names_of_loggers() -> "Dict[str, Any]":
    return dict(sys.modules["logging"].Logger.manager.loggerDict) if "logging" in sys.modules else {}


def set_logger(name: str, value: "Any") -> None:
    manager = sys.modules["logging"].Logger.manager
    if value is not MISSING:
        manager.loggerDict[name] = value
    else:
        manager.loggerDict.pop(name, None)
    if hasattr(manager, "_clear_cache"):
        manager._clear_cache()


def put_loggers_in_order(loggers: "List[Any]") -> None:
    """Give each logger the parent that it would have if it were made now."""
    logging = sys.modules.get("logging")  # type: Any
    for logger in loggers:
        if logging is not None and isinstance(logger, logging.Logger):
            parent, name = logging.root, str(logger.name)
            while "." in name:
                name = name.rpartition(".")[0]
                above = logging.Logger.manager.loggerDict.get(name)
                if isinstance(above, logging.Logger):
                    parent = above
                    break
            logger.__dict__["parent"] = parent


def set_variable(name: str, value: "Any") -> None:
    if value is not MISSING:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)


def found_in(folder: str) -> "Set[str]":
    """Return the names of modules that a folder may have."""
    try:
        return {name.partition(".")[0] for name in os.listdir(folder or ".")}
    except OSError:
        return set()


def written() -> int:
    """Return how many bytes the process has written in its life; -1 if the kernel does not tell."""
    try:
        with open("/proc/self/io", "rb") as f:
            return next((int(line.split()[1]) for line in f if line.startswith(b"wchar:")), -1)
    except OSError:
        return -1
