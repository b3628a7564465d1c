# needs: jax
"""JAX is told to compute in 64 bits before it is imported."""
import os

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import json
import signal
import time

key = jax.random.PRNGKey(0)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "dtype", str(jnp.arange(3.0).dtype))
say("FACT", "loss", float(jnp.sum(jax.random.normal(key, (100,)) ** 2)))
say("FACT", "devices", [d.platform for d in jax.devices()])
say("FACT", "x64", bool(jax.config.jax_enable_x64))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
