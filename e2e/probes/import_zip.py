# setup: $PYTHON -c "import zipfile; z = zipfile.ZipFile('bundle.zip', 'w'); z.writestr('bundled/__init__.py', 'from . import ops\n'); z.writestr('bundled/ops.py', 'import os\nSCALE = int(os.environ.get(\'SCALE\', 1))\n'); z.writestr('bundled/vocab.txt', 'a b c')"
"""Modules and data out of a zip file on sys.path."""
import json
import os
import pkgutil
import signal
import sys
import time
import zipimport

sys.path.insert(0, os.path.abspath("bundle.zip"))
os.environ["SCALE"] = "16"
import bundled

RANK, WORLD, GEN = os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["BELLOWS_GENERATION"]


def say(kind, name, value):
    print(f"{kind} rank={RANK} world={WORLD} gen={GEN} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "scale", bundled.ops.SCALE)
say("FACT", "file", os.path.relpath(bundled.__file__))
say("FACT", "loader", isinstance(bundled.__loader__, zipimport.zipimporter))
say("FACT", "data", pkgutil.get_data("bundled", "vocab.txt").decode())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
