# needs: jax
"""jax.random with keys that a module makes of what the script has set, and transformers' set_seed."""
import settings

settings.SEED = 5
import jax
import keys
import json
import os
import random
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "key", jax.random.key_data(keys.KEY).tolist() if hasattr(jax.random, "key_data") else keys.KEY.tolist())
say("FACT", "normal", jax.random.normal(keys.KEY, (3,)).tolist())
say("FACT", "count", [jax.process_count(), jax.local_device_count()])
say("FACT", "matmul", str(jax.config.jax_default_matmul_precision))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
