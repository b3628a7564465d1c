"""weakref.finalize, exit handlers in their order, and an ExitStack at module level."""
import atexit
import weakref
import cleanup
import json
import os
import signal
import sys
import time

weakref.finalize(json, cleanup.note, "script finalizer")
atexit.register(cleanup.note, "script handler")
atexit.unregister(cleanup.removed)
read = cleanup.read()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "of-end", read)
say("FACT", "handlers", [atexit._ncallbacks() > 2, cleanup.FINALIZER.alive, cleanup.FINALIZER.atexit])

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
