"""A finder in sys.meta_path sees the script's imports and rewrites one."""
import importlib.abc
import importlib.machinery
import sys

ASKED = []


class Watcher(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        ASKED.append(name)
        if name == "stub":
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.VALUE = "generated %d" % len(ASKED)


sys.meta_path.insert(0, Watcher())
import colorsys
import stub
import first
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "asked", [n for n in ASKED if n in ("colorsys", "stub", "first", "second", "wave")])
say("FACT", "stub", stub.VALUE)
say("FACT", "finders", [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
