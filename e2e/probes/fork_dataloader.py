"""A torch DataLoader with worker processes, seeded, with the modules that its workers see."""
import torch
import dataset

torch.manual_seed(9)
dataset.SCALE = 3
import json
import os
import random
import signal
import time
from torch.utils.data import DataLoader

loader = DataLoader(dataset.Squares(), batch_size=4, shuffle=True, num_workers=1)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


if __name__ == "__main__":
    say("FACT", "batches", [b.tolist() for b in loader])
    say("FACT", "again", [b.tolist() for b in loader])
    say("FACT", "next", torch.rand(1).item())
    say("FACT", "method", torch.multiprocessing.get_start_method())
    random.seed(1)

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
