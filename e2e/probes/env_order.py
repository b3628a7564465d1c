"""The order and number of variables, and which of them are set at all."""
import json
import os
import posix
import signal
import time

KEYS = list(os.environ)
START = sorted(k.decode() for k in posix.environ)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "order", [k for k in KEYS if k not in ("OLDPWD", "_", "SHLVL")])
say("FACT", "number", len(KEYS))
say("FACT", "posix", START)
say("FACT", "empty", sorted(k for k, v in os.environ.items() if not v and "RESUME" not in k))
say("FACT", "same", sorted(KEYS) == START)
with open("/proc/self/environ") as f:
    say("FACT", "kernel", sorted(e.partition("=")[0] for e in f.read().split("\0") if e))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
