"""Generators of their own that modules make and do not seed."""
import random
import sampler
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "instance", sampler.RNG.getrandbits(64))
say("DRAW", "subclass", sampler.OWN.getrandbits(64))
say("DRAW", "class-attribute", sampler.Loader.rng.getrandbits(64))
say("DRAW", "default-argument", sampler.pick())
say("DRAW", "closure", sampler.draw())
say("DRAW", "cached", sampler.shared().getrandbits(64))
say("FACT", "seeded", sampler.SEEDED.getrandbits(32))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
