"""What Python imports at its start under `bellows verify`, as sitecustomize: it observes scripts that do not import bellows.

When the training process has imported torch or JAX, this imports the module, which brings
the hooks. Launchers that import neither, and processes that the training process
starts, are left alone. A sitecustomize of the machine or of the user is run, too.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any


class Watch:
    """Finds torch and jax as others would, and has the module imported once one of them is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in ("torch", "jax"):
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            importlib.import_module("bellows")

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def run_next() -> None:
    """Run the sitecustomize that this one stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [os.path.abspath(p) for p in sys.path]
    after = path[path.index(here) + 1 :] if here in path else path
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", after)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def start() -> None:
    """Observe this process from now on, if it is one that trains under `bellows verify`."""
    if not os.environ.get("BELLOWS_VERIFY") or os.environ.get("BELLOWS_SDK_PID"):
        return
    if "torch" in sys.modules or "jax" in sys.modules:  # in a worker that was forked
        importlib.import_module("bellows")
    else:
        sys.meta_path.insert(0, Watch())


start()
run_next()
