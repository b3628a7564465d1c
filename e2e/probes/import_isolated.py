# command: {python} -I -B import_isolated.py
"""An isolated interpreter: without its folder, PYTHONPATH and the user's packages on its path."""
import sys

FOUND = [p for p in sys.path]
try:
    import neighbour
except ImportError as e:
    neighbour = None
sys.path.insert(0, ".")
import other
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "path", FOUND)
say("FACT", "neighbour", neighbour is None)
say("FACT", "other", other.NAME)
say("FACT", "flags", [sys.flags.isolated, sys.flags.ignore_environment, sys.flags.no_user_site, sys.flags.dont_write_bytecode])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
