"""What Python imports at its start under `bellows verify`, as sitecustomize: it observes scripts that do not import bellows.

When the training process has imported torch or JAX, this imports the module, which brings
the hooks. Launchers that import neither, and processes that the training process
starts, are left alone. A sitecustomize of the machine or of the user is run, too.
It imports nothing that Python has not imported before it, so that the script finds
the modules that it would find otherwise, and imports them itself.
"""

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False  # as typing has it, which is not imported
if TYPE_CHECKING:
    from typing import Any


class Watch:
    """Finds torch and jax as others would, and has the module imported once one of them is there."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in ("torch", "jax"):
            return None
        for finder in [f for f in sys.meta_path if f is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                sys.meta_path.remove(self)
                observe_after(spec.loader)
                return spec
        return None


def observe_after(loader: "Any") -> None:
    """Have the module imported once a loader has executed its own."""
    execute = loader.exec_module

    def exec_module(module: "Any") -> None:
        execute(module)
        __import__("bellows")

    loader.exec_module = exec_module


def run_next() -> None:
    """Run the sitecustomize that this one stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [os.path.abspath(p) for p in sys.path]
    after = path[path.index(here) + 1 :] if here in path else path
    spec = PathFinder.find_spec("sitecustomize", after)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("BELLOWS_VERIFY") and not os.environ.get("BELLOWS_SDK_PID"):
    if "torch" in sys.modules or "jax" in sys.modules:  # a .pth file of an installed package may import it
        __import__("bellows")
    else:
        sys.meta_path.insert(0, Watch())
run_next()
