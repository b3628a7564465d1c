"""The script executes itself anew once, with the environment that it wants."""
import os
import sys

if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ["ORIGINAL_PID"] = str(os.getpid())
    os.execv(sys.executable, [sys.executable] + sys.argv)

import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "hash", hash("seeded"))
say("FACT", "order", list({"alpha", "beta", "gamma", "delta", "epsilon"}))
say("FACT", "same-process", os.environ["ORIGINAL_PID"] == str(os.getpid()))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
