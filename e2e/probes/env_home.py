"""The script sets HOME, PATH, TMPDIR and a cache folder before modules derive paths from them."""
import os

base = os.path.abspath("area")
for name, folder in (("HOME", "home"), ("TMPDIR", "tmp"), ("XDG_CACHE_HOME", "cache")):
    os.makedirs(os.path.join(base, folder), exist_ok=True)
    os.environ[name] = os.path.join(base, folder)
os.environ["PATH"] = os.path.join(base, "bin") + ":" + os.environ["PATH"]

import paths
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "home", os.path.relpath(paths.HOME))
say("FACT", "temp", os.path.relpath(paths.TEMP))
say("FACT", "cache", os.path.relpath(paths.CACHE))
say("FACT", "path", os.path.relpath(paths.FIRST))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
