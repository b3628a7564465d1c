"""A file that a module reads at its import, in several ways; the old world writes it when it halts."""
import state
import json
import os
import signal
import time

RANK, GEN = os.environ["RANK"], os.environ["BELLOWS_GENERATION"]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "json", state.DATA)
say("LATE", "text", state.TEXT)
say("LATE", "size", state.SIZE)
say("LATE", "lines", state.LINES)
say("LATE", "mapped", state.MAPPED)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if RANK == "0":
    with open("state.json", "r+") as f:  # in place: the inode and the size stay
        f.write('{"phase": %s}' % GEN)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{RANK}.json"), "w") as f:
    json.dump({"step": step}, f)
