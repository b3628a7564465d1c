"""The script changes its working directory before a module reads relative files at its import."""
import os

os.makedirs("run", exist_ok=True)
os.chdir("data")

import vocabulary
import json
import signal
import sys
import time

os.chdir(os.path.join("..", "run"))
import later

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "words", vocabulary.WORDS)
say("FACT", "at-import", os.path.basename(vocabulary.WHERE))
say("FACT", "later", os.path.basename(later.WHERE))
say("FACT", "cwd", os.path.basename(os.getcwd()))
say("FACT", "link", os.path.basename(os.readlink("/proc/self/cwd")))

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
