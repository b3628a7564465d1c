"""Defaults for variables, set only where nothing is set yet, and removed ones."""
import os

os.environ.setdefault("RANK", "0")
os.environ.setdefault("WORLD_SIZE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "MASTER_ADDR" not in os.environ:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
port = os.environ.pop("MASTER_PORT", None)
del os.environ["TORCHELASTIC_RUN_ID"]
import single
import json
import signal
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "rank", os.environ["RANK"])
say("FACT", "single", single.SINGLE)
say("FACT", "address", os.environ["MASTER_ADDR"].startswith("127."))
say("FACT", "port", port not in (None, "12355"))
say("FACT", "threads", os.environ["OMP_NUM_THREADS"])
say("FACT", "left", subprocess.getoutput("env | grep -c '^MASTER_PORT=\\|^TORCHELASTIC_RUN_ID='"))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
