"""Monkey patches of standard modules that later modules rely on at their import."""
import json
import socket
import time as clock

json.JSONEncoder.default = lambda self, o: sorted(o) if isinstance(o, set) else str(o)
real_time, clock.monotonic_start = clock.time, clock.monotonic()
clock.time = lambda: 1000.0
socket.getfqdn = lambda name="": "patched.example"

import export
import os
import signal

clock.time = real_time
time = clock

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "text", export.TEXT)
say("FACT", "stamp", export.STAMP)
say("FACT", "host", export.HOST)
say("FACT", "encoder", json.dumps({"x": {2, 1}}))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
