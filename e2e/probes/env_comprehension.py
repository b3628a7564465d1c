"""Planned variables taken out of the environment by iterating over it."""
import json
import os
import signal
import time

PREFIXES = ("RANK", "WORLD", "LOCAL_", "GROUP_")
found = {k: v for k, v in os.environ.items() if k.startswith(PREFIXES)}
truthy = sorted(k for k in os.environ if os.environ[k] and k.startswith(("MASTER", "CUDA", "BELLOWS_GEN", "TORCHELASTIC_R")))
pairs = [f"{k}={v}" for k, v in sorted(os.environ.items()) if "RANK" in k and v]


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "found", found)
say("FACT", "truthy", truthy)
say("FACT", "pairs", pairs)
say("FACT", "distributed", any(k == "WORLD_SIZE" for k in os.environ.keys()))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
