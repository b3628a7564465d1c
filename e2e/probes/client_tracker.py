"""A client of an experiment tracker: run id by time and uuid, a sending thread, a flush at exit."""
import tracker
import json
import os
import signal
import time

run = tracker.init(project="vision", config={"lr": 0.1})
run.log({"loss": 1.0})
time.sleep(0.2)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("DRAW", "id", run.id)
say("DRAW", "session", tracker.SESSION)
say("TIME", "started", run.started)
say("TIME", "session-time", tracker.IMPORTED)
say("FACT", "rank", run.rank)
say("FACT", "sent", run.sent)
say("FACT", "alive", run.thread.is_alive())
say("LATE", "finished", tracker.finished())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
