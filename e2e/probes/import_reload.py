"""A module that is reloaded after its settings changed, and counts how often it ran."""
import importlib
import json
import os
import signal
import time

import counters
import knobs
import network

width = network.WIDTH
knobs.WIDTH = 256
network = importlib.reload(network)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "widths", [width, network.WIDTH])
say("FACT", "runs", counters.RUNS)
say("FACT", "old-class", network.FIRST is network.Net)
say("FACT", "instances", network.Net.made)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
