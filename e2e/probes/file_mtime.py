"""Times of files decide whether a cache is valid, as asked at a module's import."""
import cache
import json
import os
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "valid", cache.VALID)
say("LATE", "age-known", cache.STAMP)
say("FACT", "folder", cache.FOLDER)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if RANK == "0":
    os.utime("source.txt", (2 * 10**9 + int(GEN), 2 * 10**9 + int(GEN)))  # the content stays
    if GEN == "2":
        os.utime("cache.txt", (2 * 10**9 + 2, 2 * 10**9 + 2))
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{RANK}.json"), "w") as f:
    json.dump({"step": step}, f)
