"""A helper process that a module starts at its import and that runs as long as the worker."""
import sidecar
import json
import os
import signal
import sys
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "runs", sidecar.PROCESS.poll())
say("FACT", "parent", open(f"/proc/{sidecar.PROCESS.pid}/stat").read().split()[3] == str(os.getpid()))
say("FACT", "rank", sidecar.ask())
say("DRAW", "pid", [sidecar.PROCESS.pid, os.environ["BELLOWS_NODE"], os.environ["BELLOWS_GENERATION"]])

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
