"""Names of temporary files, and folders made at a module's import."""
import tempfile
import scratch
import json
import os
import signal
import sys
import time

mine = os.path.join(scratch.FOLDER.name, "mine.txt")
clash = os.path.exists(mine)
with open(mine, "x") as f:
    f.write(os.environ["RANK"])
time.sleep(0.2)  # the other ranks do so, too

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "folder", scratch.FOLDER.name)
say("DRAW", "file", scratch.FILE.name)
say("DRAW", "mkdtemp", scratch.PLAIN)
say("DRAW", "next-name", next(tempfile._get_candidate_names()))
say("FACT", "clash", clash)
say("FACT", "mine", open(mine).read())
say("FACT", "files", os.listdir(scratch.FOLDER.name))
say("FACT", "there", [os.path.isdir(scratch.PLAIN), os.path.exists(scratch.FILE.name)])
say("FACT", "default-dir", os.path.basename(tempfile.gettempdir()))

def train():
    step = 0
    try:
        while True:
            step += 1
            time.sleep(0.05)
            print(f"step {step}", flush=True)
    finally:
        with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.txt"), "w") as f:
            f.write(str(step))


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
train()
