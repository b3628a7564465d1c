"""Memory is traced from before a module's import on."""
import tracemalloc

tracemalloc.start(5)
BEFORE = tracemalloc.get_traced_memory()[0]
import big
import json
import os
import signal
import time

snapshot = tracemalloc.take_snapshot()
mine = snapshot.filter_traces([tracemalloc.Filter(True, big.__file__)])

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "limit", tracemalloc.get_traceback_limit())
say("FACT", "module-bytes", sum(s.size for s in mine.statistics("filename")) > 900000)
say("FACT", "grown", tracemalloc.get_traced_memory()[0] - BEFORE > 900000)
say("FACT", "where", [os.path.basename(s.traceback[0].filename) for s in mine.statistics("filename")])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
