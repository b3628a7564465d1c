"""Data are prepared under a lock when a module is imported, by the first rank that comes, once."""
import dataset
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "built", open("built.log").read().split())
say("FACT", "rows", len(dataset.ROWS))
say("FACT", "held", dataset.LOCK.closed)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
