"""Only rank 0 imports what logs, and it patches what all use."""
import os
import json
import signal
import sys
import time
import metrics

if int(os.environ.get("RANK", "0")) == 0:
    import dashboard

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "has-dashboard", "dashboard" in sys.modules)
say("FACT", "report", metrics.report(2.0))
say("FACT", "sinks", metrics.SINKS)
say("FACT", "sqlite", "sqlite3" in sys.modules)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
