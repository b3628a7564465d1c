"""The process gives itself a name, as setproctitle does."""
import ctypes
import threading
import title
import json
import os
import signal
import time

with open("/proc/self/comm") as f:
    after_import = f.read().strip()
ctypes.CDLL(None).prctl(15, b"rank%s" % os.environ["RANK"].encode(), 0, 0, 0)
names = []
t = threading.Thread(target=lambda: names.append(open("/proc/thread-self/comm").read().strip()))
t.start()
t.join()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "found", title.BEFORE)
say("FACT", "after-import", after_import)
say("FACT", "now", open("/proc/self/comm").read().strip())
say("FACT", "thread", names)
say("FACT", "cmdline", open("/proc/self/cmdline").read().count("\0"))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
