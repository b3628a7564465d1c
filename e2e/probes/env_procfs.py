"""Planned variables read from the kernel's copy of the environment, by Python and by a child."""
import kernel_env
import json
import os
import signal
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "rank", kernel_env.ENV.get("RANK"))
say("FACT", "world", kernel_env.ENV.get("WORLD_SIZE"))
say("FACT", "by-child", subprocess.getoutput("tr '\\0' '\\n' < /proc/$PPID/environ | grep '^RANK='"))
say("FACT", "unset", "MY_OWN" in kernel_env.ENV)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
