# setup: cp import_shebang.py run_me && sed -i "1i #!$PYTHON -u" run_me && chmod +x run_me
# command: ./run_me --size small
"""A script that is executed by its first line."""
import sys
import argparse
import json
import os
import signal
import time

parser = argparse.ArgumentParser()
parser.add_argument("--size", choices=["small", "large"])
args = parser.parse_args()

RANK, WORLD, GEN = os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["BELLOWS_GENERATION"]


def say(kind, name, value):
    print(f"{kind} rank={RANK} world={WORLD} gen={GEN} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "size", args.size)
say("FACT", "prog", parser.prog)
say("FACT", "argv", sys.argv)
say("FACT", "unbuffered", sys.stdout.write_through)
say("FACT", "main", os.path.basename(__file__))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
