"""Each process has a hash seed of its own, and sets are in its order."""
import json
import os
import signal
import time
import vocab

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "hash", hash("a string") ^ hash(b"bytes"))
say("DRAW", "set-order", list({f"token{i}" for i in range(40)}))
say("DRAW", "module-order", vocab.ORDER)
say("FACT", "numbers", [hash(12345), hash(0.5), list({3, 1, 2})])
say("FACT", "sorted", sorted(vocab.ORDER)[:3])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
