"""A module installs hooks for exceptions; a thread and a destructor fail and are reported once."""
import hooks
import json
import os
import signal
import sys
import threading
import time


def fails():
    raise KeyError("in a thread of rank " + os.environ["RANK"])


class Bad:
    def __del__(self):
        raise ValueError("in a destructor")


t = threading.Thread(target=fails)
t.start()
t.join()
bad = Bad()
del bad

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "seen", hooks.SEEN)
say("FACT", "hooks", [sys.excepthook.__name__, threading.excepthook.__name__, sys.unraisablehook.__name__])

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
