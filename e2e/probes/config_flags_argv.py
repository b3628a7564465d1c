"""A module parses sys.argv at its import, after the script has changed it, as flag libraries do."""
import sys

sys.argv = [sys.argv[0], "--epochs", "7"]
import flags
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "epochs", flags.EPOCHS)
say("FACT", "program", flags.PROGRAM)
say("FACT", "late", flags.define("late", 1))
say("FACT", "cmdline", open("/proc/self/cmdline").read().split("\0")[1:-1])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
