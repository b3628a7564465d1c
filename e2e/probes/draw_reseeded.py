"""Generators that are seeded by the time, the pid or nothing, on purpose, at a module's import."""
import os
import random
import numpy as np

random.seed(0)
np.random.seed(0)
import shake
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "none", shake.NONE)
say("DRAW", "numpy", shake.NUMPY)
say("DRAW", "time", shake.BY_TIME)
say("DRAW", "pid", shake.BY_PID)
say("DRAW", "script", [random.getrandbits(64), int(np.random.randint(2**62))])
say("FACT", "pid-right", shake.PID_SEED == os.getpid())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
