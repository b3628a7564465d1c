"""Planned variables read by operators, copies of other kinds, repr, length and pattern."""
import copy
import json
import os
import signal
import time
from os import environ

import settings

merged = os.environ | {"LR": "0.1"}
deep = copy.deepcopy(dict(environ))
unpacked = dict(**environ)


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "merged", merged["RANK"])
say("FACT", "deep", deep["WORLD_SIZE"])
say("FACT", "unpacked", unpacked["LOCAL_RANK"])
say("FACT", "repr", f"'RANK': '{merged['RANK']}'" in repr(environ))
say("FACT", "module", settings.VALUES)
say("FACT", "missing", [settings.missing(n) for n in ("RANK", "NO_SUCH")])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
