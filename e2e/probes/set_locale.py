"""The locale is set before a module formats numbers at its import."""
import locale

BEFORE = locale.setlocale(locale.LC_ALL)
try:
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
except locale.Error:
    pass

import ctypes
import labels
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "before", BEFORE)
say("FACT", "now", locale.setlocale(locale.LC_ALL))
say("FACT", "module", labels.LOCALE)
say("FACT", "encoding", [locale.getpreferredencoding(), labels.ENCODING])
say("FACT", "text", labels.TEXT)
libc = ctypes.CDLL(None)
libc.setlocale.restype = ctypes.c_char_p
say("FACT", "c", libc.setlocale(6, None).decode())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
