"""Decimal and other context variables, set before a module and in threads."""
import contextvars
import decimal

decimal.getcontext().prec = 50
decimal.DefaultContext.prec = 12
decimal.setcontext(decimal.Context(prec=40, rounding=decimal.ROUND_DOWN))

import ratios
import json
import os
import signal
import threading
import time

MODE = contextvars.ContextVar("mode", default="none")
MODE.set("train")
seen = []
t = threading.Thread(target=lambda: seen.append([decimal.getcontext().prec, MODE.get()]))
t.start()
t.join()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "third", str(ratios.THIRD))
say("FACT", "context", [decimal.getcontext().prec, decimal.getcontext().rounding])
say("FACT", "thread", seen)
say("FACT", "mode", [MODE.get(), len(contextvars.copy_context())])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
