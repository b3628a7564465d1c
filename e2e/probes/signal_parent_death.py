"""The process asks the kernel to be told when its parent dies, and looks who that is."""
import ctypes
import signal
import parent
import json
import os
import time

got = ctypes.c_int(-1)
ctypes.CDLL(None).prctl(2, ctypes.byref(got), 0, 0, 0)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "set", got.value)
say("FACT", "same-parent", parent.PARENT == os.getppid())
say("FACT", "pid", parent.PID == os.getpid())
say("DRAW", "parent-of-ranks", [os.getppid(), os.environ["BELLOWS_GENERATION"]])
say("DRAW", "pid-number", [os.getpid(), os.environ["BELLOWS_GENERATION"]])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
