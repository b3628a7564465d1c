"""torch's unseeded generator begins anew in each process, and so does one that seeds itself."""
import torch
import layers
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "initial", torch.initial_seed())
say("DRAW", "module-weights", layers.WEIGHT.tolist())
say("DRAW", "first", torch.rand(2).tolist())
say("DRAW", "dropout", layers.MASK.tolist())
say("DRAW", "seeded", torch.seed())
say("DRAW", "after-seed", torch.rand(3).double().tolist())
say("DRAW", "generator-seed", layers.GENERATOR.initial_seed())
say("DRAW", "generator", torch.rand(3, generator=layers.GENERATOR).tolist())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
