"""How deep the script can recurse, and what its stack looks like."""
import inspect
import sys
import traceback
import depth
import json
import os
import signal
import time


def dive(n=1):
    try:
        return dive(n + 1)
    except RecursionError:
        return n


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "deepest", dive())
say("FACT", "frames", [os.path.basename(f.filename) for f in inspect.stack()])
say("FACT", "main-back", sys._getframe().f_back is None)
say("FACT", "format", len(traceback.format_stack()))
say("FACT", "module-stack", depth.FRAMES)
say("FACT", "limit", [sys.getrecursionlimit(), depth.LIMIT])
sys.setrecursionlimit(5000)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
