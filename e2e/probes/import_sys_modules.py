"""Which modules are loaded at the script's first line, and after a few imports."""
import sys

FIRST = sorted(sys.modules)
import random

SECOND = sorted(set(sys.modules) - set(FIRST))
import json
import os
import signal
import time

THIRD = sorted(set(sys.modules) - set(FIRST) - set(SECOND))

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "at-begin", FIRST)
say("FACT", "by-random", SECOND)
say("FACT", "by-json", THIRD)
say("FACT", "typing", "typing" in sys.modules)
say("FACT", "importer-cache", sorted(os.path.basename(p) for p in sys.path_importer_cache if "src" in p))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
