"""A time zone that the script sets, and a module that formats times at its import."""
import os
import time

os.environ["TZ"] = "Asia/Kathmandu"
time.tzset()

import stamps
import json
import signal
from datetime import datetime

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "module", stamps.EPOCH)
say("FACT", "zone", [time.tzname[0], time.timezone, stamps.ZONE])
say("FACT", "date", datetime.fromtimestamp(0).isoformat())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
