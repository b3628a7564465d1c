"""A config module that the old world writes anew, with the same size, when it halts."""
import config
import json
import os
import signal
import sys
import time
from derived import WARM_STEPS

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "round", config.ROUND)
say("LATE", "derived", WARM_STEPS)


def finish(step):
    if os.environ["RANK"] == "0":
        text = "ROUND = %s\n" % os.environ["BELLOWS_GENERATION"]
        with open("config.py", "w") as f:  # same number of bytes as ever
            f.write(text)
        os.utime("config.py", (step + 10**9, step + 10**9))
    with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
        json.dump({"step": step}, f)


stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
finish(step + 100 * int(os.environ["BELLOWS_GENERATION"]))
