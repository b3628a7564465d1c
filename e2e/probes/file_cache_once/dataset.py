import fcntl
import json
import os

with open("cache.lock", "w") as LOCK:
    fcntl.flock(LOCK, fcntl.LOCK_EX)
    if not os.path.exists("cache.json"):
        with open("built.log", "a") as f:
            f.write("built\n")
        with open("cache.json", "w") as f:
            json.dump(list(range(100)), f)
    with open("cache.json") as f:
        ROWS = json.load(f)
