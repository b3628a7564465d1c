# command: bash start.sh --lr 0.5
"""A shell script sets variables and limits, and executes the interpreter."""
import sys
import os
import json
import resource
import signal
import time
import rates

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "factor", os.environ.get("FACTOR"))
say("FACT", "rate", rates.RATE)
say("FACT", "files", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
say("FACT", "argv", sys.argv)
say("FACT", "leader", os.getpid() == os.getsid(0))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
