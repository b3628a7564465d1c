import os

FILE = "starts-%s.txt" % os.environ.get("RANK")
LOG = FILE + ".log"
try:
    with open(FILE) as f:
        STARTS = int(f.read()) + 1
except FileNotFoundError:
    STARTS = 1
with open(FILE, "w") as f:
    f.write(str(STARTS))
with open(LOG, "a") as f:
    f.write("start %d;" % STARTS)
