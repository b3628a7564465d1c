"""A configuration file is executed in the script's own names; the old world writes it at its halt."""
learning_rate, stage = 0.1, 0
with open("configurator.py") as f:
    exec(f.read())

import schedule
import json
import os
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]
keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float))]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "stage", stage)
say("LATE", "rate", schedule.rate(learning_rate))
say("FACT", "keys", keys)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if RANK == "0":
    with open("configurator.py", "w") as f:
        f.write(f"stage = {GEN}\nlearning_rate = 0.{GEN}\n")
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{RANK}.json"), "w") as f:
    json.dump({"step": step}, f)
