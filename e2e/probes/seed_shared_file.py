"""Rank 0 draws a seed and leaves it in a file for the other ranks, at a module's import."""
import random
import shared_seed
import json
import os
import signal
import time

random.seed(shared_seed.SEED)
first = random.getrandbits(64)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "seed", shared_seed.SEED)
say("DRAW", "first", first)
say("FACT", "from", shared_seed.DRAWN == (os.environ["RANK"] == "0"))

class Trainer:
    def __init__(self):
        self.step, self.halted = 0, False
        mine = os.path.join(os.environ.get("BELLOWS_RESUME_FROM") or "/nowhere", f"rank{os.environ['RANK']}.json")
        if os.path.exists(mine):
            with open(mine) as f:
                self.step = json.load(f)["step"]
        signal.signal(signal.SIGTERM, self.halt)

    def halt(self, *_):
        self.halted = True

    def fit(self):
        while not self.halted:
            self.step += 1
            time.sleep(0.05)
            print(f"step {self.step}", flush=True)
        with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
            json.dump({"step": self.step}, f)


if __name__ == "__main__":
    Trainer().fit()
