"""Caches of the standard library that modules fill: re, linecache, functools, ABCs, enums, interned names."""
import abc
import linecache
import re
import warm_caches
import enum
import json
import os
import signal
import sys
import time


class Shape(abc.ABC):
    pass


class Mode(enum.Enum):
    A = enum.auto()
    B = enum.auto()


Shape.register(dict)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "virtual", [isinstance({}, Shape), isinstance([], Shape), warm_caches.dispatch({}), warm_caches.dispatch(1)])
say("FACT", "hits", [warm_caches.square.cache_info().hits, warm_caches.square.cache_info().misses])
say("FACT", "lines", sorted(os.path.basename(f) for f in linecache.cache))
say("FACT", "enum", [m.value for m in Mode])
say("FACT", "patterns", len(re._cache) if hasattr(re, "_cache") else 0)
say("FACT", "interned", sys.intern("train" + "_loop") is warm_caches.NAME)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
