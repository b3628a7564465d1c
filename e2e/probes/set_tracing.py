"""Trace and profile functions see what is imported after them."""
import sys

BEFORE = [sys.gettrace() is None, sys.getprofile() is None]
calls, lines = [], []


def profiler(frame, event, arg):
    if event == "call" and frame.f_globals.get("__name__") == "work":
        calls.append(frame.f_code.co_name)


def tracer(frame, event, arg):
    if frame.f_globals.get("__name__") == "work":
        lines.append(frame.f_lineno)
        return tracer


sys.setprofile(profiler)
sys.settrace(tracer)
import work

sys.settrace(None)
sys.setprofile(None)
import json
import os
import signal
import threading
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "before", BEFORE)
say("FACT", "calls", calls)
say("FACT", "lines", lines)
say("FACT", "threads", [threading.gettrace() is None, threading.getprofile() is None] if hasattr(threading, "gettrace") else [])
say("FACT", "monitoring", [sys.monitoring.get_tool(i) for i in range(6)] if hasattr(sys, "monitoring") else [])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
