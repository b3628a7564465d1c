import fcntl
import os

FILE = open("run.lock", "a")
ACQUIRED = None
if os.environ.get("RANK", "0") == "0":
    try:
        fcntl.flock(FILE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ACQUIRED = True
    except OSError:
        ACQUIRED = False
NAME = "only-%s.pid" % os.environ.get("RANK", "0")
try:
    os.close(os.open(NAME, os.O_CREAT | os.O_EXCL))
    CREATED = True
except FileExistsError:
    CREATED = False
