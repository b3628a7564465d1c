"""A module starts a thread at its import that has to live, and be counted, in each worker."""
import heartbeat
import json
import os
import signal
import threading
import time

begin = heartbeat.beats()
time.sleep(0.3)
moved = heartbeat.beats() > begin

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "moves", moved)
say("FACT", "alive", [heartbeat.THREAD.is_alive(), heartbeat.THREAD.daemon, threading.active_count()])
say("FACT", "names", sorted(t.name for t in threading.enumerate()))
say("FACT", "kernel", len(os.listdir("/proc/self/task")))
say("FACT", "pid", heartbeat.LAST["pid"] == os.getpid())
say("FACT", "rank", heartbeat.LAST["rank"])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
