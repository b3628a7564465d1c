"""The script replaces open, os.path.exists and a class's method before modules use them."""
import builtins
import io
import os
import pathlib

real_open, real_exists = builtins.open, os.path.exists
builtins.open = lambda f, *a, **k: io.StringIO("virtual") if str(f).startswith("virtual:") else real_open(f, *a, **k)
os.path.exists = lambda p: str(p).startswith("virtual:") or real_exists(p)
pathlib.Path.exists = lambda self: "virtual:" in str(self) or real_exists(self)

import reader
import json
import signal
import time

builtins.open, os.path.exists = real_open, real_exists

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "read", reader.TEXT)
say("FACT", "exists", reader.THERE)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
