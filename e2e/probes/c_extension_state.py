# setup: gcc -shared -fPIC -o libstate.so state.c
"""A shared library that notes in its constructor which process it is in, and keeps a counter."""
import os
import binding
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "pid", binding.LIB.constructed_in() == os.getpid())
say("FACT", "rank", binding.LIB.rank())
say("TIME", "moment", binding.LIB.moment())
say("FACT", "counter", [binding.LIB.count(), binding.LIB.count()])
say("FACT", "rand", binding.LIB.draw())
say("FACT", "forks", binding.LIB.forks())
binding.libc.srand(5)
say("FACT", "seeded", binding.LIB.draw())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
