"""What the module __main__ holds, and what other modules see of it."""
import sys

NAMES = sorted(vars(sys.modules["__main__"]))
import json
import os
import signal
import time
import __main__

RATE = 0.25
import asks_main

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "names", NAMES)
say("FACT", "file", os.path.basename(__main__.__file__))
say("FACT", "spec", repr(__main__.__spec__))
say("FACT", "loader", type(__loader__).__name__ + " " + str(getattr(__loader__, "name", None)))
say("FACT", "package", [__package__, __name__, __doc__ is None, __builtins__.__name__, __main__.__dict__ is globals()])
say("FACT", "cached", [getattr(__main__, "__cached__", "none"), getattr(__main__, "__annotations__", "none")])
say("FACT", "asked", asks_main.RATE)
say("FACT", "entry", asks_main.ENTRY)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
