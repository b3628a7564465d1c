"""Modules that load their parts when they are first used."""
import importlib.util
import sys

import tools


def lazy(name):
    spec = importlib.util.find_spec(name)
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


heavy = lazy("heavy")
import settings

settings.SIZE = 5
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


parts = sorted(m for m in sys.modules if m.startswith("tools"))
say("FACT", "unloaded", parts)
say("FACT", "type", type(heavy).__name__)
say("FACT", "heavy", heavy.SIZE)
say("FACT", "attribute", tools.crop.NAME)
say("FACT", "loaded", sorted(m for m in sys.modules if m.startswith("tools")))

step = 0
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
while not stop:
    step += 1
    tools.flip.NAME  # loaded by the loop
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
