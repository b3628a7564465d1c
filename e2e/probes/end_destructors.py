"""Destructors of objects in modules, in classes, in cycles and in the script run at the end."""
import gc
import objects
import json
import os
import signal
import sys
import time


class Last:
    def __del__(self):
        objects.note("script")


last = Last()
loop = Last()
loop.me = loop
read = objects.read()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "of-end", sorted(set(read)))
say("LATE", "twice", len(read) != len(set(read)))

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
