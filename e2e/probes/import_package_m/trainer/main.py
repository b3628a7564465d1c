"""python -m trainer.main"""
import argparse
import json
import os
import signal
import sys
import time

from . import LOADED, net
from .registry import KNOWN, register


@register
class Main(net.Net):
    pass


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    return parser.parse_args()


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "lr", parse().lr)
say("FACT", "names", [__name__, __package__, __spec__.name, __spec__.parent])
say("FACT", "argv", [os.path.relpath(sys.argv[0]), sys.argv[1:], [os.path.basename(a) for a in sys.orig_argv]])
say("FACT", "known", KNOWN)
say("FACT", "loaded", LOADED)
say("FACT", "path0", os.path.relpath(sys.path[0]))
say("FACT", "twice", "trainer.main" in sys.modules)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
