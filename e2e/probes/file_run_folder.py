"""A dated output folder is made when a configuration module is imported, and entered, as hydra does."""
import os
import config
import json
import signal
import time

HERE = os.getcwd()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("TIME", "folder", os.path.getmtime(config.FOLDER))
say("TIME", "stamp", config.STAMP)
say("DRAW", "name", os.path.basename(config.FOLDER))
say("FACT", "entered", HERE == config.FOLDER)
say("FACT", "files", sorted(os.listdir(config.FOLDER)))
say("LATE", "runs", len(os.listdir(os.path.join(config.ORIGINAL, "outputs", os.environ["RANK"]))))
say("FACT", "overrides", open(os.path.join(config.FOLDER, "overrides.yaml")).read())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
