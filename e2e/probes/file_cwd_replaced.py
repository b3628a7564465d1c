# setup: mkdir current && echo 0 > current/weights
"""The script enters a folder that the old world puts aside, and makes anew, when it halts."""
import os

TOP = os.getcwd()
os.chdir("current")
import lookup
import json
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "relative", open("weights").read().strip())
say("LATE", "at-import", lookup.WEIGHTS)
say("FACT", "cwd", os.path.relpath(os.getcwd(), TOP))
say("FACT", "same-folder", os.stat(".").st_ino == os.stat(os.path.join(TOP, "current")).st_ino)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{RANK}.json"), "w") as f:
    json.dump({"step": step}, f)
if RANK == "0":
    os.rename(os.path.join(TOP, "current"), os.path.join(TOP, "aside-" + GEN))
    os.mkdir(os.path.join(TOP, "current"))
    with open(os.path.join(TOP, "current", "weights"), "w") as f:
        f.write(GEN)
