"""All plugins of a folder are imported; the old world adds one when it halts."""
import importlib
import json
import os
import pkgutil
import signal
import time

import plugins

loaded = [importlib.import_module("plugins." + m.name).NAME for m in pkgutil.iter_modules(plugins.__path__)]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "plugins", loaded)
say("LATE", "listed", sorted(f for f in os.listdir("plugins") if f.endswith(".py")))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
generation, rank = os.environ["BELLOWS_GENERATION"], os.environ["RANK"]
if rank == "0":
    with open(f"plugins/made_{generation}.py", "w") as f:
        f.write(f"NAME = 'made in {generation}'\n")
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{rank}.json"), "w") as f:
    json.dump({"step": step}, f)
