"""A class of __main__ is pickled into the checkpoint when the job halts, and read by the next world."""
import json
import os
import pickle
import signal
import time

import registry


@registry.register
class State:
    created = 0

    def __init__(self):
        type(self).created += 1
        self.steps, self.generations = 0, []


RESUME = os.environ.get("BELLOWS_RESUME_FROM")
if RESUME:
    with open(os.path.join(RESUME, "state-0.pickle"), "rb") as f:
        state = pickle.load(f)
else:
    state = State()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("LATE", "generations", state.generations)
say("FACT", "class", [type(state).__module__, type(state) is State, registry.CLASSES["State"] is State])
say("LATE", "created", State.created)
say("FACT", "function", pickle.loads(pickle.dumps(say)) is say)
say("FACT", "qualified", repr(State))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
while not stop:
    state.steps += 1
    time.sleep(0.05)
    print(f"step {state.steps}", flush=True)
state.generations.append(os.environ["BELLOWS_GENERATION"])
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"state-{os.environ['RANK']}.pickle"), "wb") as f:
    pickle.dump(state, f)
