"""torch is seeded before a module makes its weights at its import."""
import torch

torch.manual_seed(11)

import model
import json
import os
import signal
import time
from torch.utils.data import DataLoader, RandomSampler

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


loader = DataLoader(range(16), batch_size=4, shuffle=True)
say("FACT", "weights", model.NET.weight.flatten().tolist())
say("FACT", "table", model.TABLE.tolist())
say("FACT", "batches", [b.tolist() for b in loader])
say("FACT", "sampler", list(RandomSampler(range(5))))
say("FACT", "next", torch.rand(1).item())
say("DRAW", "initial", torch.initial_seed())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
