"""Entropy of the system: urandom, getrandom, /dev/urandom, secrets, uuid4, SystemRandom."""
import tokens
import json
import os
import random
import secrets
import signal
import time
import uuid

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


for name in ("URANDOM", "GETRANDOM", "DEVICE", "TOKEN", "UUID4", "SYSTEM", "KERNEL"):
    say("DRAW", "module-" + name.lower(), getattr(tokens, name))
say("DRAW", "urandom", os.urandom(8).hex())
say("DRAW", "uuid4", str(uuid.uuid4()))
say("DRAW", "secrets", secrets.token_urlsafe())
say("DRAW", "system", random.SystemRandom().random())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
