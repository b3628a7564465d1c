"""Children that a module starts at its import read the planned variables."""
import ranks
import json
import os
import signal
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "printenv", ranks.RANK)
say("FACT", "shell", ranks.SHELL)
say("FACT", "popen", ranks.POPEN)
say("FACT", "system", ranks.STATUS)
say("FACT", "now", subprocess.run(["printenv", "WORLD_SIZE"], stdout=subprocess.PIPE, text=True).stdout.strip())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
