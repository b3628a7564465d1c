import os
import secrets
import time

FILE = "seed-%s.txt" % os.environ.get("BELLOWS_GENERATION", "0")
DRAWN = os.environ.get("RANK", "0") == "0"
if DRAWN:
    with open(FILE + ".new", "w") as f:
        f.write(str(secrets.randbits(64)))
    os.rename(FILE + ".new", FILE)
while not os.path.exists(FILE):
    time.sleep(0.02)
with open(FILE) as f:
    SEED = int(f.read())
