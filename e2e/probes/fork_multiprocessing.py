"""Pools of processes by fork, spawn and forkserver, which find the script's functions and settings."""
import multiprocessing
import os
import settings
import json
import signal
import sys
import time

settings.SIZE = 7


def work(x):
    return [x * x, os.environ.get("RANK"), settings.SIZE, __name__]


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            say("FACT", method, pool.map(work, [1, 2]))
    say("FACT", "default", multiprocessing.get_start_method())
    say("FACT", "name", [multiprocessing.current_process().name, multiprocessing.parent_process() is None])
    say("FACT", "key", len(multiprocessing.current_process().authkey))
    say("DRAW", "authkey", bytes(multiprocessing.current_process().authkey).hex())
    say("FACT", "children", len(multiprocessing.active_children()))
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    step = 0
    while not stop:
        step += 1
        time.sleep(0.05)
        print(f"step {step}", flush=True)
    with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
        json.dump({"step": step}, f)
