# setup: mv import_directory.py app/__main__.py
# command: {python} app --x 1
"""The interpreter is given a folder with a __main__.py, which is first on its path."""
import sys
import parts
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "parts", parts.WHERE)
say("FACT", "path0", os.path.relpath(sys.path[0]))
say("FACT", "main", [__name__, __spec__ and __spec__.name, os.path.relpath(__file__), __package__])
say("FACT", "argv", [os.path.relpath(sys.argv[0]), sys.argv[1:]])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
