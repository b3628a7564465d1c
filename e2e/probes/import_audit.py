"""An audit hook that the script adds first sees what is imported and opened after it."""
import sys

EVENTS = []


def hook(event, args):
    if event == "import" and args[0] in ("first", "second", "colorsys"):
        EVENTS.append("import " + args[0])
    elif event == "open" and str(args[0]).endswith("table.txt"):
        EVENTS.append("open table")
    elif event == "os.putenv":
        EVENTS.append("putenv")


sys.addaudithook(hook)
import first
import colorsys
import json
import os
import signal
import time

os.environ["SEEN"] = "1"
events = EVENTS[:]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "events", events)
say("FACT", "table", first.TABLE)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
