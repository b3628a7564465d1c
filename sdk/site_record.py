"""What Python imports at its start in workers, as sitecustomize: it writes down which modules the job imports.

Only the first worker of a node does, and none of the processes that it starts. The next
generation's launcher imports them. A sitecustomize of the machine or of the user is run, too.
"""

import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, Set

MOST_NAMES = 20_000
PIPE = "modules"  # beside the worker's socket; it is there if names are wanted


class Recorder:
    """Sees each import that finds no module yet, and leaves the finding to others."""

    def __init__(self, path: str) -> None:
        self.path, self.pid, self.seen = path, os.getpid(), set()  # type: str, int, Set[str]

    @classmethod
    def start(cls) -> None:
        """Record from now on, if names are wanted."""
        path = os.path.join(os.path.dirname(os.environ.get("BELLOWS_WORKER_SOCKET", "")), PIPE)
        if os.access(path, os.W_OK):
            sys.meta_path.insert(0, cls(path))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.seen or len(self.seen) >= MOST_NAMES or os.getpid() != self.pid:
            return
        self.seen.add(name)
        try:
            # Each at once: no thread and no exit handler has to write it later. Under `bellows verify` it is a file.
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.write(fd, name.encode() + b"\n")
            finally:
                os.close(fd)
        except BlockingIOError:
            pass  # the pipe is full: the next generation's workers import this one themselves
        except (OSError, ValueError):
            self.seen = set()
            self.pid = -1  # the pipe has no reader any more, which is no matter of the script's


def run_next() -> None:
    """Run the sitecustomize that this one stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [os.path.abspath(p) for p in sys.path]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path[path.index(here) + 1 :] if here in path else path)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("LOCAL_RANK") == "0" and os.getsid(0) == os.getpid():
    Recorder.start()
run_next()
