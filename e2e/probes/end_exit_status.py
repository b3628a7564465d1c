"""The script ends by an error in generation 2: what it prints and its status, and what comes then."""
import json
import os
import signal
import sys
import time

import failing

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "hook", sys.excepthook.__name__)
say("LATE", "failed-before", os.path.exists("failed-once"))
say("LATE", "last", getattr(sys, "last_type", None) is None)

step = 0
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
while not stop:
    step += 1
    time.sleep(0.05)
    if os.environ["BELLOWS_GENERATION"] == "2" and os.environ["RANK"] == "1":
        time.sleep(1)  # until all ranks have said their facts
        with open("failed-once", "w"):
            pass
        failing.outer(0)
    if os.environ["BELLOWS_GENERATION"] != "2":
        print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
