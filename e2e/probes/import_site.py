# setup: mkdir -p $HOME/.local/lib/python$($PYTHON -c "import sys; print('%d.%d' % sys.version_info[:2])")/site-packages
# setup: cp -r user_site/* $HOME/.local/lib/python$($PYTHON -c "import sys; print('%d.%d' % sys.version_info[:2])")/site-packages/
# env: PYTHONPATH={work}/src/pythonpath
"""A sitecustomize, a usercustomize and a .pth file run before the script and look at the rank."""
import sys

BEGAN = getattr(sys, "_site_notes", None)
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "notes", BEGAN)
say("FACT", "pth-path", [os.path.basename(p) for p in sys.path if "extra_" in p])
say("FACT", "order", [os.path.basename(p) for p in sys.path if "src" in p and "python" in os.path.basename(p)])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
