"""Names that the script replaces before another module copies them with from … import."""
import base
import math


def clipped(x):
    return min(base.loss.__wrapped__(x), 1.0) if hasattr(base.loss, "__wrapped__") else min(x * x, 1.0)


base.loss = clipped
math.tau = 6.0
base.Optimizer.rate = 0.5

from model import evaluate, make

import json
import os
import signal
import sys
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "loss", evaluate(3.0))
say("FACT", "rate", make().rate)
say("FACT", "default", make.__defaults__[0])

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
