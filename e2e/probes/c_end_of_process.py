# setup: gcc -shared -fPIC -o libend.so end.c
"""Destructors of libraries, C's exit handlers and its buffers at the end of the process."""
import ctypes
import os
import json
import signal
import sys
import time

RANK = os.environ["RANK"].encode()
lib = ctypes.CDLL(os.path.abspath("libend.so"))
lib.begin(b"end-" + RANK)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "of-end", sorted(open("end-" + RANK.decode()).read().split()) if os.path.exists("end-" + RANK.decode()) else [])
lib.buffer()

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
