"""Names put into builtins, and a wrapped __import__, before modules are imported."""
import builtins

DEPTH, SEEN = 0, []
original = builtins.__import__


def counting(name, *args, **kwargs):
    global DEPTH
    DEPTH += 1
    try:
        SEEN.append((DEPTH, name)) if name in ("engine", "parts") else None
        return original(name, *args, **kwargs)
    finally:
        DEPTH -= 1


builtins.__import__ = counting
builtins.DEBUG = True
builtins.profile = lambda f: setattr(f, "profiled", True) or f
import engine
import json
import os
import signal
import time

builtins.__import__ = original


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "debug", engine.LEVEL)
say("FACT", "profiled", hasattr(engine.run, "profiled"))
say("FACT", "seen", SEEN)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
