"""A module draws from the unseeded global generator at its import, the script later."""
import random
import augment
import json
import os
import signal
import time

later = random.getrandbits(64)
shuffled = list(range(50))
random.shuffle(shuffled)


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "at-import", augment.SALT)
say("DRAW", "script", later)
say("DRAW", "shuffled", shuffled)
say("DRAW", "state", hash(random.getstate()))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
