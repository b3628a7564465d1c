"""All limits of the process, and limits that the script sets before a module reads them."""
import resource

ALL = {n: list(resource.getrlimit(getattr(resource, n))) for n in dir(resource) if n.startswith("RLIMIT_")}
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

import pool
import json
import os
import signal
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "all", ALL)
say("FACT", "files", resource.getrlimit(resource.RLIMIT_NOFILE))
say("FACT", "module", pool.FILES)
say("FACT", "child", subprocess.getoutput("ulimit -n; ulimit -c"))
with open("/proc/self/limits") as f:
    say("FACT", "kernel", f.read())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
