"""Memory and locks made at a module's import: each worker has its own."""
import shared
import json
import os
import signal
import time

for _ in range(1000):
    with shared.LOCK:
        shared.COUNT.value += 1
shared.ANONYMOUS[0] += 1
shared.BLOCK.buf[0] += 1
shared.SEMAPHORE.acquire(False)
time.sleep(0.3)  # the others do so, too

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "count", shared.COUNT.value)
say("FACT", "anonymous", shared.ANONYMOUS[0])
say("FACT", "block", shared.BLOCK.buf[0])
say("FACT", "semaphore", shared.SEMAPHORE.acquire(False))
say("DRAW", "block-name", shared.BLOCK.name)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
shared.BLOCK.close()
shared.BLOCK.unlink()
