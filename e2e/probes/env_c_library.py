"""C code reads and changes the environment."""
import ctypes
import os
import clib
import json
import signal
import time

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
os.environ["FROM_PYTHON"] = "seen"
libc.setenv(b"FROM_C", b"1", 1)
os.unsetenv("GROUP_RANK")

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "rank", (libc.getenv(b"RANK") or b"unset").decode())
say("FACT", "from-python", (libc.getenv(b"FROM_PYTHON") or b"unset").decode())
say("FACT", "from-c", [os.environ.get("FROM_C"), (libc.getenv(b"FROM_C") or b"unset").decode()])
say("FACT", "unset", [(libc.getenv(b"GROUP_RANK") or b"unset").decode(), "GROUP_RANK" in os.environ])
say("FACT", "module", clib.WORLD)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
