"""A pid file: a script refuses to run while the process that wrote it lives."""
import os
import single
import json
import signal
import sys
import time

if single.OTHER:
    print("another run is alive: it will be left alone", flush=True)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "other", single.OTHER)
say("FACT", "mine", int(open(single.FILE).read()) == os.getpid())

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
