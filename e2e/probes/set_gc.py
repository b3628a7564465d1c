"""The garbage collector: what is set, what is frozen, and what it still finds."""
import gc

FIRST = [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks[:]]
import graph
import json
import os
import signal
import time
import weakref

collected = gc.collect()
node = weakref.ref(graph.CYCLE)
del graph.CYCLE
gc.collect()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "first", FIRST)
say("FACT", "module", graph.STATE)
say("FACT", "cycle-gone", node() is None)
say("FACT", "frozen", gc.get_freeze_count())
say("FACT", "tracked", any(o is graph.KEPT for o in gc.get_objects()))
say("FACT", "generations", len(gc.get_objects(generation=2)) > 1000)
say("FACT", "debug", [gc.get_debug(), len(gc.garbage)])
gc.set_threshold(5000, 20, 20)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
