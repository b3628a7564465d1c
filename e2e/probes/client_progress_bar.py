# needs: tqdm
"""A bar of tqdm: its lock, its monitor, its start, and what it prints."""
import tqdm
import bars
import json
import os
import signal
import time

bar = tqdm.tqdm(total=10, disable=os.environ["RANK"] != "0", file=open(os.devnull, "w"), mininterval=0)
bar.update(3)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "n", [bar.n, bar.disable])
say("FACT", "text", tqdm.tqdm.format_meter(3, 10, 1.0, ncols=40))
say("TIME", "start", getattr(bar, "start_t", time.time()))
say("TIME", "module-start", bars.BAR.start_t)
say("FACT", "lock", tqdm.tqdm.get_lock().acquire(timeout=2) is not False)
say("FACT", "rate-plausible", bars.BAR.format_dict["elapsed"] < 60)
say("FACT", "instances", len(tqdm.tqdm._instances))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
