"""numpy's error handling and print options, set before a module computes at its import."""
import numpy as np

np.seterr(all="raise")
np.set_printoptions(precision=3, suppress=True)

import table
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "caught", table.CAUGHT)
say("FACT", "text", table.TEXT)
say("FACT", "errors", np.geterr())
with np.errstate(divide="ignore"):
    say("FACT", "inside", float(np.log(np.zeros(1))[0]) < 0)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
