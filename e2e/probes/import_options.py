# command: env DEPTH=3 {python} -O -W error::UserWarning -X utf8=0 import_options.py --x 1 "two words"
"""Options of the interpreter, and a command that sets a variable first."""
import sys
import warnings
import checks
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "flags", str(sys.flags))
say("FACT", "asserts", checks.ASSERTS)
say("FACT", "warning", checks.WARNED)
say("FACT", "xoptions", sys._xoptions)
say("FACT", "warnoptions", sys.warnoptions)
say("FACT", "depth", os.environ.get("DEPTH"))
say("FACT", "orig-argv", [os.path.basename(a) for a in sys.orig_argv])
say("FACT", "argv", sys.argv)
say("FACT", "debug", __debug__)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
