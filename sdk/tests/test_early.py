"""What early.py imports while a script is parked: a script sees none of it before it asks, and all of it as if it were imported then.

The framework is an imitation of PyTorch's packages, with one of each kind of effect that its compiler's import has.
"""

import os
import subprocess

import pytest
from test_ahead import PATIENCE_S, PYTHONS, Ahead, environment

TORCH = {
    "__init__": """
import random as _random
from . import random, optim, _compile
_default = "float32"
def get_default_dtype(): return _default
def set_default_dtype(kind):
    global _default
    _default = kind
def manual_seed(seed): return "plain"
""",
    "random": """
class State:
    def tolist(self): return []
def get_rng_state(): return State()
""",
    "optim": """
class Optimizer:
    def __init__(self): self.compiler = __import__("torch._compile", fromlist=["x"]).compiler()
""",
    "_compile": """
def compiler():
    import torch._dynamo
    return torch._dynamo
""",
    "_dynamo/__init__": """
import atexit, colorsys, logging, os, tempfile, time, warnings
import torch, torch.parts
from . import utils
LOGGER = logging.getLogger("torch._dynamo.compiles")
AT = time.monotonic()
CACHE = tempfile.gettempdir()
MODE = os.environ.get("TORCH_MODE", "none")
os.environ["TORCH_CACHE"] = "/somewhere"
warnings.simplefilter("once", utils.Warned)
@atexit.register
def leaves(): print("the compiler leaves")
def manual_seed(seed): return "compiled"
torch.manual_seed = manual_seed
torch.optim.Optimizer.compiled = property(lambda self: True)
try:
    import an_extra
except ImportError:
    an_extra = None
""",
    "parts": "MADE = True\n",
    "_dynamo/utils": """
class Warned(UserWarning): pass
""",
}

# What a script sees of the compiler, before and after it asks for it.
SCRIPT = """
import sys
sys.path.insert(0, %(site)r)
import atexit, builtins, importlib, logging, os, tempfile, threading, time, warnings
sys.modules["absent"] = None
import torch
def seen():
    print(sorted(name for name in sys.modules if name.startswith("torch")), "_dynamo" in vars(torch), os.environ.get("TORCH_CACHE"),
        [f[:1] + f[2:3] for f in warnings.filters], torch.manual_seed(1), "compiled" in vars(torch.optim.Optimizer),
        sorted(logging.Logger.manager.loggerDict), "absent" in sys.modules)
atexit.register(print, "registered first")
rank = os.environ["RANK"]
began = time.monotonic()
seen()
atexit.register(print, "registered second")
%(between)s
%(asks)s
seen()
print(torch._dynamo.MODE, torch._dynamo.CACHE, logging.getLogger("torch._dynamo.compiles").parent.name, torch._dynamo.an_extra, torch._dynamo.utils.__name__)
print("early" if torch._dynamo.AT < began else "late")
"""

ASKS = {
    "the framework": "torch.optim.Optimizer()",
    "an import": "import torch._dynamo",
    "a module of it": "from torch._dynamo.utils import Warned",
    "by its name": "importlib.import_module('torch._dynamo')",
    "another thread": "thread = threading.Thread(target=torch.optim.Optimizer)\nthread.start()\nthread.join()",
}

# What a script may do before it asks: the import does not depend on it.
MAY = {
    "another variable": "os.environ['OTHER'] = '1'",
    "warnings are ignored": "warnings.filterwarnings('ignore')",
    "a folder without such modules": "sys.path.append('/nowhere')",
    "print is replaced": "builtins.print = lambda *args, print=print: print('rank', *args)",
    "it goes elsewhere": "os.chdir('/')",
    "a class of its own": "class Mine(torch.optim.Optimizer): pass\nMine.__init__ = lambda self: None",
    "a name of its own": "seen.__defaults__ = ()\nos.environ.pop('OTHER', None)",
    "a module of the standard library": "import colorsys\nassert colorsys.rgb_to_hsv(1, 1, 1)\nos.environ['OTHER'] = '1'",
    "a temporary file": "tempfile.TemporaryFile().close()",
    "a logger": "above = logging.getLogger('torch')\nabove.setLevel('ERROR')",
    "a look at who imports": "import looks",
    "how imports are found": "importlib._bootstrap._find_and_load = lambda *args, own=importlib._bootstrap._find_and_load: own(*args)",
    "another process asks": "if os.fork() == 0:\n    import torch._dynamo\n    os._exit(0)\nassert os.wait()[1] == 0",
    "handlers": "atexit.register(print, 'registered third')",
}

# What it may not, and how the worker names it.
MAY_NOT = {
    "a variable that it reads": ("os.environ['TORCH_MODE'] = 'fast'", "TORCH_MODE"),
    "warnings are errors": ("warnings.simplefilter('error')", "the warning filters"),
    "a type": ("torch.set_default_dtype('float64')", "the default type of numbers"),
    "a function is replaced": ("torch.manual_seed = lambda seed: 'mine'", "manual_seed of torch"),
    "a method is replaced": ("torch.optim.Optimizer.__init__ = lambda self: __import__('torch._dynamo')", "__init__ of torch.optim"),
    "a module that was not there": ("open('an_extra.py', 'w').close()\nsys.path.insert(1, os.getcwd() + '/more')\nos.mkdir('more')\nos.rename('an_extra.py', 'more/an_extra.py')", "sys.path"),
    "how imports are found": ("sys.meta_path.insert(0, type('Finder', (), {'find_spec': staticmethod(lambda *args: None)}))", "sys.meta_path"),
    "the processors": ("os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})", "the processors"),
    "where temporary files go": ("os.mkdir('mine')\ntempfile.tempdir = os.getcwd() + '/mine'", "tempdir of tempfile"),
    "TMPDIR": ("os.mkdir('mine')\nos.environ['TMPDIR'] = os.getcwd() + '/mine'", "TMPDIR"),
    "a module in the way": ("sys.modules['torch._dynamo.utils'] = type(sys)('torch._dynamo.utils')", "sys.modules['torch._dynamo.utils']"),
    "a module that is new": ("with open(torch.__file__.replace('torch/__init__', 'an_extra'), 'w'): pass\nimportlib.invalidate_caches()", "site-packages"),
    "the logger is another": ("logging.getLogger('torch._dynamo.compiles')", "the logger torch._dynamo.compiles"),
    "no folder": ("os.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\nsys.path.insert(0, '')", "the working directory"),
    "a file": ("with open(torch.__file__.replace('__init__', '_dynamo/utils'), 'a') as f: f.write('#')", "utils.py"),
}

# What an import may not do early.
GIVEN_UP = {
    "prints": ("print('hello', flush=True)", "prints"),
    "prints by itself": ("import os; os.write(1, b'x')", "the output"),
    "writes what it prints": ("import sys; sys.stdout.write('hello')", "prints"),
    "prints without a flush": ("print('hello')", "prints"),
    "writes": ("open('x', 'w')", "opens"),
    "reads the plan": ("import os; os.environ.get('WORLD_SIZE')", "reads WORLD_SIZE"),
    "draws": ("import random; random.random()", "the state of random"),
    "handles signals": ("import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal handlers"),
    "starts a thread": ("import threading; threading.Thread(target=print).start()", "starts a thread"),
    "fails": ("raise ValueError('no')", "ValueError: no"),
    "looks for others": ("import sys; sys.path.append('/x')", "sys.path"),
    "goes elsewhere": ("import os; os.chdir('/')", "the working directory"),
    "replaces a module": ("import sys; sys.modules['torch.optim'] = type(sys)('torch.optim')", "replaces a module"),
    "changes the script's own": ("import __main__; __main__.mine = 1", "changes mine of __main__"),
}


@pytest.fixture(params=sorted(PYTHONS))
def python(request):
    return PYTHONS[request.param]


def framework(folder, **changed):
    """Write the imitation, and return the folder that has it."""
    site = os.path.join(str(folder), "site-packages")
    for name, source in dict(TORCH, **changed).items():
        path = os.path.join(site, "torch", name + ".py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(source)
    return site


def script(folder, between="", asks="torch.optim.Optimizer()"):
    with open(os.path.join(str(folder), "train.py"), "w") as f:
        f.write(SCRIPT % {"site": os.path.join(str(folder), "site-packages"), "between": between, "asks": asks})


def cold(python, folder):
    """Execute the script as it is, and return its status and what it printed."""
    env = dict(environment(str(folder)), RANK="0", WORLD_SIZE="2")
    done = subprocess.run([python, "train.py"], cwd=str(folder), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
    return done.returncode, done.stdout.decode()


def warm(python, folder, early=True, **how):
    ahead = Ahead(python, str(folder), **how)
    assert ahead.at()[1] == "reads RANK" and ahead.early == early
    assert ahead.release() is None
    return ahead.ended()


def check_same(python, tmp_path):
    first, second = tmp_path / "cold", tmp_path / "warm"
    status, plain = cold(python, first)
    assert status == 0, plain
    status, ran_ahead = warm(python, second)
    assert (status, ran_ahead.replace("early", "late")) == (0, plain)
    assert "early" in ran_ahead and "early" not in plain


def both(tmp_path, **of):
    for name in ("cold", "warm"):
        os.makedirs(str(tmp_path / name), exist_ok=True)
        framework(tmp_path / name)
        with open(str(tmp_path / name / "looks.py"), "w") as f:
            f.write("import sys\nframe = sys._getframe(1)\nwhile frame is not None:\n    assert frame.f_globals['__name__'] != 'x'\n    frame = frame.f_back\n")
        script(tmp_path / name, **of)


@pytest.mark.parametrize("asks", sorted(ASKS))
def test_the_script_sees_nothing_before_it_asks(python, tmp_path, asks):
    both(tmp_path, asks=ASKS[asks])
    check_same(python, tmp_path)


@pytest.mark.parametrize("between", sorted(MAY))
def test_what_does_not_matter(python, tmp_path, between):
    both(tmp_path, between=MAY[between])
    check_same(python, tmp_path)


@pytest.mark.parametrize("between", sorted(MAY_NOT))
def test_what_matters_ends_the_worker(python, tmp_path, between):
    code, named = MAY_NOT[between]
    framework(tmp_path)
    script(tmp_path, between=code)
    status, printed = warm(python, tmp_path)
    assert status == 87 and named in printed.splitlines()[-1] and "starts again" in printed, printed


@pytest.mark.parametrize("what", sorted(GIVEN_UP))
def test_what_is_given_up(python, tmp_path, what):
    code, named = GIVEN_UP[what]
    framework(tmp_path, **{"_dynamo/utils": TORCH["_dynamo/utils"] + code + "\n"})
    script(tmp_path)
    ahead = Ahead(python, tmp_path)
    assert ahead.message[0] == "cold" and named in ahead.message[1] and ahead.message[2] == "early", ahead.message
    ahead.printed()
    ahead = Ahead(python, tmp_path, before=["early"])
    assert ahead.at()[1] == "reads RANK"
    ahead.kill()


def test_a_child_that_cannot_use_it_ends_the_worker(python, tmp_path):
    framework(tmp_path)
    script(tmp_path, between="if os.fork() == 0:\n    os.environ['TORCH_MODE'] = 'fast'\n    import torch._dynamo\nos.wait()\ntime.sleep(60)")
    status, printed = warm(python, tmp_path)
    assert status == -64 and "TORCH_MODE" in printed, printed


def test_a_part_may_be_asked_for_first(python, tmp_path):
    between = "import torch.parts\nprint(torch.parts.MADE, 'torch._dynamo' in sys.modules, torch.manual_seed(1))\n"
    both(tmp_path, between=between)
    check_same(python, tmp_path)
    framework(tmp_path)
    script(tmp_path, between=between + "os.environ['TORCH_MODE'] = 'fast'")  # what comes after that is compared as well
    status, printed = warm(python, tmp_path)
    assert status == 87 and "TORCH_MODE" in printed, printed


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError('mine')"])
def test_a_script_that_does_not_ask(python, tmp_path, end):
    for name in ("cold", "warm"):
        framework(tmp_path / name)
        script(tmp_path / name, between=end + "\nos._exit = None", asks="sys.exit(0)")
    status, plain = cold(python, tmp_path / "cold")
    assert warm(python, tmp_path / "warm") == (status, plain.replace(str(tmp_path / "cold"), str(tmp_path / "warm")))


def test_nothing_is_imported_early_within_an_import(python, tmp_path):
    site = framework(tmp_path)
    with open(os.path.join(site, "trainer.py"), "w") as f:
        f.write("import os, torch\nRANK = os.environ.get('RANK')\n")
    with open(str(tmp_path / "train.py"), "w") as f:
        f.write("import sys, time\nsys.path.insert(0, %r)\nimport trainer\nbegan = time.monotonic()\nimport torch._dynamo\nprint(torch._dynamo.AT > began)\n" % site)
    status, printed = warm(python, tmp_path, early=False)
    assert (status, printed) == (0, "True\nthe compiler leaves\n")


def test_nothing_is_imported_early_where_processors_are_short(python, tmp_path):
    framework(tmp_path, optim=TORCH["optim"] + "import time; time.sleep(1.5)\n")  # as a process that others keep waiting
    script(tmp_path)
    status, printed = warm(python, tmp_path, early=False, short_s=0)
    assert status == 0 and "\nlate\n" in printed, printed
