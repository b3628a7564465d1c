# env: PYTHONUNBUFFERED=
"""Without PYTHONUNBUFFERED what modules print lies in a buffer, and comes out once."""
print("in the buffer: script")
import chatty
import json
import os
import signal
import sys
import time

sys.stdout.flush()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "buffering", [sys.stdout.write_through, sys.stdout.line_buffering])
say("FACT", "lines", chatty.LINES)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
