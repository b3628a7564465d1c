"""Warning filters are set before modules warn; each place warns once in a process."""
import warnings

warnings.filterwarnings("error", category=DeprecationWarning)
warnings.filterwarnings("ignore", message="slow")

import old_api
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    old_api.hint()
    old_api.hint()
say("FACT", "raised", old_api.RAISED)
say("FACT", "caught", [str(w.message) for w in caught])
say("FACT", "filters", [[f[0], f[2].__name__] for f in warnings.filters])
say("FACT", "registry", sorted(str(k[0]) for k in getattr(old_api, "__warningregistry__", {}) if isinstance(k, tuple)))
old_api.hint()  # seen on stderr

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
