"""A file that a module opens at its import and the script reads later; the old world replaces it at its halt."""
import corpus
import json
import os
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "handle", corpus.FILE.read())
say("LATE", "folder", os.read(os.open("part", os.O_RDONLY, dir_fd=corpus.FOLDER), 100).decode())
say("LATE", "position", corpus.LOG.tell())
say("LATE", "lines", sum(1 for _ in open("corpus.log")))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if RANK == "0":
    with open("corpus.txt.new", "w") as f:
        f.write("corpus of " + GEN)
    os.replace("corpus.txt.new", "corpus.txt")
    os.rename("parts", "parts-" + GEN)
    os.mkdir("parts")
    with open("parts/part", "w") as f:
        f.write("part of " + GEN)
    with open("corpus.log", "a") as f:
        f.write("one more line\n")
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{RANK}.json"), "w") as f:
    json.dump({"step": step}, f)
