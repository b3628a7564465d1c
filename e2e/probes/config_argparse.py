# command: {python} config_argparse.py --batch-size 64 --no-amp --tags a b
"""Arguments, dataclasses and cached functions make a configuration; other modules share it."""
import sys
from options import Options, defaults, parse

sys.argv.append("--verbose")
options = parse()

import consumer
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "options", [options.batch_size, options.amp, options.tags, options.verbose])
say("FACT", "share", options.share)
say("FACT", "cached", [defaults().rank, defaults.cache_info().hits, defaults() is defaults()])
say("FACT", "consumer", consumer.RATE)
say("FACT", "help", Options.__doc__)
say("FACT", "argv", sys.argv[1:])

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
