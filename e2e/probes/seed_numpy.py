"""numpy is seeded before a module shuffles with it at its import."""
import numpy as np

np.random.seed(7)
rng = np.random.default_rng(7)

import split
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "split", split.TRAIN.tolist())
say("FACT", "legacy", np.random.rand(2).tolist())
say("FACT", "normal", [np.random.randn(), np.random.randn()])
say("FACT", "position", int(np.random.get_state()[2]))
say("FACT", "generator", rng.random())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
