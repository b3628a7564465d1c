# setup: mkdir -p runs/0 && echo 0 > runs/0/weights && ln -s 0 runs/latest
"""A symbolic link `latest` that the old world turns to its last checkpoint when it halts."""
import resume
import json
import os
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "link", resume.LINK)
say("LATE", "weights", resume.WEIGHTS)
say("LATE", "real", resume.REAL)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if RANK == "0":
    os.makedirs("runs/" + GEN, exist_ok=True)
    with open(f"runs/{GEN}/weights", "w") as f:
        f.write(GEN + "\n")
    os.symlink(GEN, "runs/latest.new")
    os.replace("runs/latest.new", "runs/latest")
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{RANK}.json"), "w") as f:
    json.dump({"step": step}, f)
