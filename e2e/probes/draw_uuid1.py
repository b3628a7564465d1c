"""Names made of time and host: unique over ranks, and no older than the world."""
import uuid
import run_name
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


def seconds(u):
    return (u.time - 0x01B21DD213814000) / 1e7


now = uuid.uuid1()
say("DRAW", "module", str(run_name.RUN))
say("DRAW", "now", str(now))
say("DRAW", "clock-seq-node", f"{run_name.NAME}")
say("TIME", "module-time", seconds(run_name.RUN))
say("TIME", "now-time", seconds(now))
say("FACT", "node", uuid.getnode())
say("FACT", "uuid5", str(uuid.uuid5(uuid.NAMESPACE_DNS, "bellows.example")))
say("FACT", "version", [now.version, run_name.RUN.version])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
