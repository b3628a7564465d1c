"""Modules register themselves, number their layers and leave traces in the order of the imports."""
import zeta
import alpha
from registry import ORDER, fresh

import json
import os
import signal
import sys
import time

if len(ORDER) == 2:
    import middle

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "order", ORDER)
say("FACT", "names", [zeta.LAYER, alpha.LAYER, middle.LAYER, fresh("dense")])
say("FACT", "modules", [m for m in sys.modules if m in ("zeta", "alpha", "middle", "registry", "colorsys")])
say("FACT", "time-first", list(sys.modules).index("zeta") < list(sys.modules).index("json"))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
