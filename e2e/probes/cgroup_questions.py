"""The process's control group, and its limits, as memory-aware loaders ask at their import."""
import json
import os
import signal
import time
import budget

with open("/proc/self/cgroup") as f:
    LINES = f.read().split()
group = next((line.split("::")[1] for line in LINES if "::" in line), "/")

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


def limit(name):
    try:
        with open("/sys/fs/cgroup" + group + "/" + name) as f:
            return f.read().strip()
    except OSError as e:
        return e.strerror


say("FACT", "lines", len(LINES))
say("FACT", "depth", group.count("/"))
say("FACT", "same-at-import", budget.GROUP == LINES)
say("FACT", "limits", {n: limit(n) for n in ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cpu.weight", "cgroup.freeze")})
say("DRAW", "group", group + os.environ["BELLOWS_GENERATION"] + os.environ["BELLOWS_NODE"])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
