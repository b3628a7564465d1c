"""Settings out of a .env file, which the old world changes when it halts."""
import os

with open(".env") as f:
    for line in f:
        name, _, value = line.strip().partition("=")
        os.environ.setdefault(name, value)

import settings
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "stage", settings.STAGE)
say("FACT", "project", settings.PROJECT)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if os.environ["RANK"] == "0":
    with open(".env.new", "w") as f:
        f.write("PROJECT=vision\nSTAGE=%d\n" % (int(settings.STAGE) + 1))
    os.replace(".env.new", ".env")
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
