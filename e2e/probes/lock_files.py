"""Locks on files: of the whole run, which the old world holds until its end, and each rank's own."""
import fcntl
import os
import json
import signal
import time

import guard

own = open(f"rank{os.environ['RANK']}.lock", "w")
try:
    fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held = True
except OSError:
    held = False

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "run", guard.ACQUIRED if os.environ["RANK"] == "0" else "-")
say("FACT", "own", held)
say("FACT", "exclusive-file", guard.CREATED)
with open("/proc/locks") as f:
    say("FACT", "posix", sum(f" {os.getpid()} " in line for line in f if "POSIX" in line))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
if guard.CREATED:
    os.remove(guard.NAME)
