"""OpenSSL's generator, which keeps its state in the process."""
import ssl
import session
import hashlib
import json
import os
import signal
import time

try:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
except ImportError:
    X25519PrivateKey = None

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "module", session.KEY)
say("DRAW", "now", ssl.RAND_bytes(16).hex())
say("DRAW", "again", ssl.RAND_bytes(16).hex())
say("DRAW", "sha", hashlib.sha256(ssl.RAND_bytes(64)).hexdigest())
if X25519PrivateKey:
    say("DRAW", "key", X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
        if hasattr(X25519PrivateKey.generate().public_key(), "public_bytes_raw") else ssl.RAND_bytes(8).hex())
say("FACT", "status", ssl.RAND_status())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
