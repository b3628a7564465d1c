"""Planned variables read from copies of the environment."""
import json
import os
import signal
import time
from collections import ChainMap

import settings

env = os.environ.copy()
rank = int(env.get("RANK") or 0)
world = int(env.get("WORLD_SIZE") or 1)
chained = ChainMap({"LR": "0.1"}, dict(os.environ))
print(f"starting rank {rank} of {world}", flush=True)


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "world", world)
say("FACT", "rank", rank)
say("FACT", "chained", chained["LOCAL_WORLD_SIZE"])
say("FACT", "module", [settings.RANK, settings.WORLD, settings.IS_MAIN])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
