"""Handlers of forks that a module registers are called for forks of the script's own alone."""
import forks
import json
import os
import signal
import time

before = dict(forks.CALLED)
child = os.fork()
if child == 0:
    os._exit(forks.CALLED["child"])
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "before", before)
say("FACT", "after", forks.CALLED)
say("FACT", "in-child", status)
say("FACT", "reseeded", forks.GENERATION)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
