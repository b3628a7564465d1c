"""Moments that modules and the script read when they are imported and begin."""
import logging
import time
import timing
import json
import os
import signal
from datetime import datetime, timezone

BEGIN = time.perf_counter()


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


now = time.time()
say("TIME", "module-time", timing.STARTED)
say("TIME", "module-datetime", timing.STAMP.timestamp())
say("TIME", "module-perf-counter", now - (time.perf_counter() - timing.COUNTER))
say("TIME", "module-monotonic", now - (time.monotonic() - timing.MONOTONIC))
say("TIME", "module-clock-gettime", now - (time.clock_gettime(time.CLOCK_BOOTTIME) - timing.BOOTTIME))
say("TIME", "script-perf-counter", now - (time.perf_counter() - BEGIN))
say("TIME", "script-datetime", datetime.now(timezone.utc).timestamp())
say("TIME", "logging", logging._startTime)
with open("/proc/self/stat") as f:
    ticks = int(f.read().rpartition(")")[2].split()[19])
say("TIME", "process-start", now - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK"))
say("TIME", "file-of-run", os.stat("/proc/self").st_mtime)
say("TIME", "cpu-time", now - time.process_time())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
