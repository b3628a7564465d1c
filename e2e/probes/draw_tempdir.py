"""A folder for temporary files that a module makes at its import, which each process has for itself."""
import scratch
import json
import os
import signal
import sys
import time

path = os.path.join(scratch.FOLDER.name, "shard.txt")
taken = os.path.exists(path)
with open(path, "a") as f:
    f.write("rank %s\n" % os.environ["RANK"])
time.sleep(0.5)  # until the others have, too

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "taken", taken)
say("FACT", "content", open(path).read())
say("DRAW", "name", scratch.FOLDER.name)
say("TIME", "made", os.stat(scratch.FOLDER.name).st_ctime)

def train():
    step = 0
    try:
        while True:
            step += 1
            time.sleep(0.05)
            print(f"step {step}", flush=True)
    finally:
        with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.txt"), "w") as f:
            f.write(str(step))


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
train()
