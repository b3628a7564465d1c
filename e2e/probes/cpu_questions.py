"""How many processors, how loaded, how much memory: asked at a module's import and later."""
import host
import json
import multiprocessing
import os
import platform
import resource
import signal
import socket
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "cpus", [os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0)), host.CPUS])
say("FACT", "host", [platform.node() == socket.gethostname(), platform.machine(), os.uname().sysname])
say("FACT", "page", os.sysconf("SC_PAGESIZE"))
say("FACT", "load", len(os.getloadavg()))
children = resource.getrusage(resource.RUSAGE_CHILDREN)
say("FACT", "children", [children.ru_utime, children.ru_maxrss, os.times().children_user])
own = resource.getrusage(resource.RUSAGE_SELF)
say("FACT", "cpu-time", own.ru_utime + own.ru_stime < 5.0)
with open("/proc/self/statm") as f:
    say("FACT", "small", int(f.read().split()[1]) * 4096 < 100 * 2**20)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
