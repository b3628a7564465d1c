# needs: transformers
"""HF_HUB_OFFLINE and kin are set by the script before the libraries read them."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = os.path.abspath("hf")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

from huggingface_hub import constants
from transformers.utils import logging as hf_logging
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "offline", constants.HF_HUB_OFFLINE)
say("FACT", "home", os.path.relpath(constants.HF_HOME))
say("FACT", "cache", os.path.relpath(constants.HF_HUB_CACHE))
say("FACT", "verbosity", hf_logging.get_verbosity())
say("FACT", "bars", constants.HF_HUB_DISABLE_PROGRESS_BARS)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
