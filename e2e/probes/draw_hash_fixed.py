# env: PYTHONHASHSEED=42
"""With a hash seed in the job's environment, sets are in the same order everywhere."""
import json
import os
import signal
import subprocess
import sys
import time
import vocab

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


child = subprocess.run([sys.executable, "-c", "print(hash('a string'))"], stdout=subprocess.PIPE, text=True)
say("FACT", "hash", hash("a string"))
say("FACT", "child", child.stdout.strip())
say("FACT", "module-order", vocab.ORDER)
say("FACT", "flag", sys.flags.hash_randomization)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
