"""A database that a module opens at its import; the old world writes to it when it halts."""
import results
import json
import os
import signal
import time

RANK = os.environ["RANK"]
results.DB.execute("insert into runs values (?, ?)", (os.environ["BELLOWS_GENERATION"], "begun"))
results.DB.commit()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "rows", results.DB.execute("select generation, state from runs where state != 'begun' order by rowid").fetchall())
say("LATE", "begun", results.DB.execute("select count(*) from runs where state = 'begun'").fetchone())
say("LATE", "at-import", results.LAST)
say("FACT", "check", results.DB.execute("pragma integrity_check").fetchone())
say("FACT", "thread", results.MEMORY.execute("select count(*) from t").fetchone())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
results.DB.execute("insert into runs values (?, ?)", (os.environ["BELLOWS_GENERATION"], "ended"))
results.DB.commit()
