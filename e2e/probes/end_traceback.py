# setup: echo 'x = = 1' > syntax.py
"""Errors at a module's import, caught, and the text of their tracebacks."""
import json
import os
import signal
import sys
import time
import traceback

texts = {}
for name in ("broken", "missing_dependency", "syntax", "exits"):
    try:
        __import__(name)
    except BaseException:
        texts[name] = traceback.format_exc()
try:
    from broken import VALUE
except Exception as e:
    texts["second"] = [type(e).__name__, str(e), e.__traceback__.tb_next is not None, len(traceback.extract_tb(e.__traceback__))]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


for name in texts:
    say("FACT", name, texts[name])
say("FACT", "left", [m for m in ("broken", "missing_dependency", "syntax", "exits") if m in sys.modules])
say("FACT", "tries", open("tries.txt").read().count(f"{os.environ['RANK']}/{os.environ['BELLOWS_GENERATION']}\n"))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
