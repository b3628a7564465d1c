"""A module reads the best metric if its file is there; the old world writes that when it halts."""
import early_stopping
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "best", early_stopping.BEST if early_stopping.BEST != float("inf") else "inf")
say("LATE", "stops", early_stopping.stops(0.9))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if os.environ["RANK"] == "0" and os.environ["BELLOWS_GENERATION"] == "2":
    early_stopping.save(0.5)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
