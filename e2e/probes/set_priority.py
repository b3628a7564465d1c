"""Niceness and processors, which the script changes relative to what it found."""
import os

before = [os.nice(0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)]
os.nice(3)
cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpus[int(os.environ.get("LOCAL_RANK", "0")) % len(cpus)]})

import workers
import json
import signal
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "before", before)
say("FACT", "nice", os.nice(0))
say("FACT", "affinity", sorted(os.sched_getaffinity(0)))
say("FACT", "module", workers.COUNT)
say("FACT", "child", subprocess.getoutput("nice"))
with open("/proc/self/stat") as f:
    fields = f.read().rpartition(")")[2].split()
say("FACT", "kernel", [fields[15], fields[16], fields[38]])
say("FACT", "timer-slack", open("/proc/self/timerslack_ns").read().strip())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
