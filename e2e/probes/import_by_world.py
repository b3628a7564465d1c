"""Large worlds import another module, which changes what is computed."""
import json
import os
import signal
import sys
import time

from scaling import rules

world = int(os.environ["WORLD_SIZE"])
if world >= 4:
    import large_batch
rates = rules["rate"] * world

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "rate", rates)
say("FACT", "loaded", sorted(m for m in sys.modules if m in ("scaling", "large_batch", "wave")))
say("FACT", "rules", rules)

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
