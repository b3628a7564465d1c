"""The script replaces stdout and print before modules print at their import."""
import builtins
import sys


class Tee:
    def __init__(self, out):
        self.out, self.kept = out, []

    def write(self, text):
        self.kept.append(text)
        return self.out.write(text)

    def __getattr__(self, name):
        return getattr(self.out, name)


sys.stdout = Tee(sys.stdout)
printed = builtins.print
builtins.print = lambda *a, **k: printed("[mine]", *a, **k)
import noisy

builtins.print = printed
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "kept", "".join(sys.stdout.kept))
say("FACT", "same", noisy.OUT is sys.stdout)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
