"""A pool of threads that a module makes at its import, with work under way, and a lock it holds."""
import loader
import json
import os
import queue
import signal
import threading
import time

try:
    first = loader.FIRST.result(timeout=5)
    again = loader.POOL.submit(os.getpid).result(timeout=5) == os.getpid()
except Exception as e:
    first, again = type(e).__name__, None
try:
    item = loader.QUEUE.get(timeout=5)
except queue.Empty:
    item = "empty"

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "first", first)
say("FACT", "again", again)
say("FACT", "queue", item)
say("FACT", "lock", loader.LOCK.acquire(timeout=1))
say("FACT", "local", getattr(loader.LOCAL, "name", None))
say("FACT", "timer", loader.FIRED.wait(5))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
