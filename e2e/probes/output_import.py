"""Modules print at their import, by Python, by the descriptor and by C; each worker once, in order."""
print("script begins")
import loud
import json
import os
import signal
import sys
import time

print("script goes on", file=sys.stderr)
sys.stdout.write("rank %s writes\n" % os.environ["RANK"])

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "printed", loud.COUNT)
print("last line before training", flush=True)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
