"""Handlers of SIGTERM that a module installs at its import, before the script installs its own."""
import preempt
import json
import os
import signal
import time

previous = signal.getsignal(signal.SIGTERM)
chained = []


def handler(number, frame):
    chained.append(number)
    previous(number, frame)


signal.signal(signal.SIGTERM, handler)
signal.signal(signal.SIGHUP, signal.SIG_IGN)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "previous", getattr(previous, "__name__", str(previous)))
say("FACT", "told", preempt.TOLD)
say("LATE", "history", open(preempt.path()).read() if os.path.exists(preempt.path()) else "")

step = 0
while not preempt.TOLD:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(preempt.path(), "a") as f:
    f.write("%s chained %d;" % (os.environ["BELLOWS_GENERATION"], len(chained)))
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
