# needs: lightning
"""Lightning's seed_everything before a module draws, with workers seeded too."""
import lightning as L

L.seed_everything(3, workers=True)

import data
import json
import os
import random
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "drawn", data.DRAWN)
say("FACT", "after", random.random())
say("FACT", "variables", [os.environ.get("PL_GLOBAL_SEED"), os.environ.get("PL_SEED_WORKERS")])
say("FACT", "rank-zero", L.pytorch.utilities.rank_zero_only.rank)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
