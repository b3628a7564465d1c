"""An optional module that is missing at first; the old world writes it when it halts."""
import json
import os
import signal
import time

try:
    import tuned
except ImportError as e:
    tuned, why = None, type(e).__name__ + ": " + str(e)
else:
    why = None

try:
    from plain import fast_path
except ImportError:
    fast_path = None

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "tuned", tuned and tuned.RATE)
say("LATE", "why", why)
say("FACT", "fast-path", fast_path)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = 0
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
if os.environ["RANK"] == "0":
    with open("tuned.py.new", "w") as f:
        f.write("# %s\nRATE = 0.%s\n" % ("x" * step, os.environ["BELLOWS_GENERATION"]))
    os.rename("tuned.py.new", "tuned.py")
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
