"""A configuration object reads all it needs of the plan when a module is imported."""
from dist import CONFIG, is_distributed
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "config", [CONFIG.rank, CONFIG.world, CONFIG.local])
say("FACT", "distributed", is_distributed)
say("FACT", "resumes", bool(CONFIG.resume) == (os.environ["BELLOWS_GENERATION"] != "1"))
say("FACT", "devices", CONFIG.visible)
say("FACT", "right-checkpoint", CONFIG.save == os.environ["BELLOWS_CHECKPOINT_DIR"] and os.path.isdir(CONFIG.save))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
