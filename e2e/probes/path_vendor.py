"""A vendored copy that sys.path is turned to wins over the module beside the script."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "vendor"))

import helper
import json
import signal
import time


RANK, WORLD, GEN = os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["BELLOWS_GENERATION"]


def say(kind, name, value):
    print(f"{kind} rank={RANK} world={WORLD} gen={GEN} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "version", helper.VERSION)
say("FACT", "file", os.path.relpath(helper.__file__))
say("FACT", "loss", helper.loss(3.0))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
