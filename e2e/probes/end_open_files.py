# setup: mkdir out
"""Files that are never closed: what was written to them is there after the end, of each rank."""
import csv
import gzip
import history
import json
import os
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]


def read(name, opener=open):
    path = f"out/{int(GEN) - 1}-{RANK}-{name}"
    return opener(path, "rt").read() if os.path.exists(path) else None


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "text", read("text"))
say("LATE", "csv", read("csv"))
say("LATE", "gzip", read("gz", gzip.open))
say("LATE", "module", read("module"))

text = open(f"out/{GEN}-{RANK}-text", "w")
text.write(f"rank {RANK} in generation {GEN}\n")
table = csv.writer(open(f"out/{GEN}-{RANK}-csv", "w", newline=""))
table.writerow(["loss", RANK, GEN])
packed = gzip.open(f"out/{GEN}-{RANK}-gz", "wt")
packed.write(f"packed by {RANK}\n")
holder = {"never": [open(f"out/{GEN}-{RANK}-more", "wb", buffering=1000)]}
holder["never"][0].write(b"x" * 10)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
