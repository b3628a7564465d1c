# setup: mkdir -p real && mv import_symlink.py real/main.py && ln -s real/main.py link.py
# command: {python} link.py
"""The script is reached by a symbolic link, and imports what lies beside its real file."""
import os
import sys
import beside
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "beside", beside.WHERE)
say("FACT", "path0", os.path.relpath(sys.path[0]))
say("FACT", "file", os.path.basename(__file__))
say("FACT", "argv", sys.argv)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
