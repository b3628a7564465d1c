"""Whether modules leave compiled files, as the script has asked before it imports them."""
import sys

sys.dont_write_bytecode = True
import silent
import json
import os
import signal
import time

sys.dont_write_bytecode = False
sys.pycache_prefix = os.path.abspath("compiled")
import loud

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "silent", [f for f in os.listdir(".") if f == "__pycache__"])
say("FACT", "cached", [os.path.relpath(m.__cached__).split(os.sep)[0] for m in (silent, loud)])
say("FACT", "prefix", os.path.basename(sys.pycache_prefix))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
