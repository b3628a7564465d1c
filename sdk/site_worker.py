"""What Python imports at the start of a worker, as sitecustomize.

It has the script run ahead where the shim asks for that, and lets a worker whose script has ended leave without tearing
down what cannot be seen to be torn down. It leaves nothing of its own behind: sys.modules has the sitecustomize that
it stands in front of, or none, as without Bellows.
"""

import os
import sys

MYPY = False
if MYPY:
    from typing import Any, Callable, List


def run_next(here: str) -> None:
    """Run the sitecustomize that this one stands in front of, in its place."""
    paths = [p for p in sys.path if os.path.abspath(p) != here]
    spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")  # which Python expects
    module = sys.modules["_frozen_importlib"].module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def leave_at_once(here: str, ended: "List[Callable[[], None]]") -> bool:
    """Have a worker whose script has ended leave at once, after all exit handlers, where nothing would be seen of more.

    Where it cannot, what is in ended is done before the interpreter is torn down. Returns whether any of this will be.
    """
    if os.getsid(0) != os.getpid():
        return False  # a process that a worker has started
    known = "atexit" in sys.modules
    import atexit

    if not known and sys.version_info >= (3, 10):  # before, the interpreter itself points to the module, and has no other's handlers
        del sys.modules["atexit"]
    if atexit._ncallbacks() > 0:
        return False  # it would not be the last
    pid = os.getpid()

    def leave() -> None:
        if os.getpid() == pid:
            # Nothing is imported here that the script's folders may have under the same name.
            library, kept = os.path.dirname(os.__file__), list(sys.path)
            sys.path[:] = [here, library, *(p for p in sys.path if p.startswith(library) and p.endswith("lib-dynload"))]
            import bellows_leave

            bellows_leave.leave(pid)
            sys.path[:] = kept
            for step in ended:
                step()

    atexit.register(leave)
    return True


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    ended = []  # type: List[Callable[[], None]]
    ends = leave_at_once(here, ended)
    fd = os.environ.pop("BELLOWS_AHEAD", "")
    if fd:
        try:
            import bellows_ahead

            del sys.modules["bellows_ahead"]
            ended.append(bellows_ahead.begin(int(fd.partition(",")[0]), here, fd.endswith(",check"), ends).end)
        except BaseException as err:  # nothing of the script may run now
            os.write(2, ("bellows: %s: %s\n" % (type(err).__name__, err)).encode())
            os._exit(1)
    run_next(here)


main()
