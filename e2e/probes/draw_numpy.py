"""numpy's unseeded generators, the old and the new kind, at a module's import and later."""
import numpy as np
import noise
import json
import os
import signal
import time

rng = np.random.default_rng()


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "legacy-import", noise.LEGACY)
say("DRAW", "legacy", int(np.random.randint(2**62)))
say("DRAW", "state", int(np.random.get_state()[1][0]) * 2**32 + int(np.random.get_state()[1][1]))
say("DRAW", "generator", int(rng.integers(2**62)))
say("DRAW", "module-generator", int(noise.RNG.integers(2**62)))
say("DRAW", "random-state", int(noise.STATE.randint(2**62)))
say("DRAW", "seed-sequence", str(noise.SEQUENCE.entropy))
say("DRAW", "spawned", int(np.random.default_rng(noise.SEQUENCE.spawn(1)[0]).integers(2**62)))
say("DRAW", "permutation", np.random.permutation(100).tolist())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
