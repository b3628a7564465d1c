"""Generators, context managers and coroutines that are under way when the script ends."""
import contextlib
import steps
import json
import os
import signal
import sys
import time

batches = steps.stream("script")
next(batches)


@contextlib.contextmanager
def session():
    try:
        yield 1
    finally:
        steps.note("session")


open_session = session()
open_session.__enter__()
read = steps.read()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "of-end", sorted(read))

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
